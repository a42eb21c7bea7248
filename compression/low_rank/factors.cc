#include "compression/low_rank/factors.h"

#include <utility>

#include "compression/dense/none.h"
#include "compression/low_rank/factors_payload.h"
#include "compression/payload_bytes.h"

namespace psgd {
namespace {

constexpr size_t kBatchBytes = 4;
// Bytes beside the elements as fp32: the headers of a payload and of its two matrices.
constexpr size_t kMostHeaderBytes = 28;

class DenseEncoder final : public Encoder {
 public:
  explicit DenseEncoder(std::unique_ptr<Encoder> none) : none_(std::move(none)) {}

  void Encode(const EncodeInput& input, std::vector<std::byte>* out) override {
    StoreField(uint32_t{0}, Grow(kBatchBytes, out));
    none_->Encode(input, out);
  }

 private:
  const std::unique_ptr<Encoder> none_;
};

class Factors final : public Codec {
 public:
  explicit Factors(const CodecKernels& kernels)
      : Codec(CODEC_FACTORS, "factors", kernels), none_(MakeNone(kernels)) {}

  bool lossless() const override { return true; }
  std::unique_ptr<Encoder> NewEncoder(const SliceShape& shape) const override {
    return std::make_unique<DenseEncoder>(none_->NewEncoder(shape));
  }
  StatusOrReader Open(ByteSpan payload, const SliceShape& shape) const override {
    PSGD_ASSIGN_OR_RETURN(auto readers, OpenShared(payload, {&shape, 1}));
    return std::move(readers[0]);
  }
  StatusOrReaders OpenShared(ByteSpan payload, std::span<const SliceShape> shapes) const override {
    if (payload.size() < kBatchBytes) {
      return absl::InvalidArgumentError("factors payload ends before its batch");
    }
    const bool dense = LoadField<uint32_t>(payload.data()) == 0;
    if (dense) return none_->OpenShared(payload.subspan(kBatchBytes), shapes);
    return OpenFactors(payload, shapes, kernels());
  }
  size_t MaxPayload(uint32_t elements) const override {
    return kMostHeaderBytes + elements * sizeof(float);
  }

 private:
  const std::unique_ptr<Codec> none_;
};

}  // namespace

bool FactorsPay(uint64_t batch, uint64_t rows, uint64_t columns, uint64_t shards) {
  const double floats =
      static_cast<double>(batch) *
      (static_cast<double>(rows) + static_cast<double>(shards) * static_cast<double>(columns));
  return floats < static_cast<double>(rows) * static_cast<double>(columns);
}

std::unique_ptr<Codec> MakeFactors(const CodecKernels& kernels) {
  return std::make_unique<Factors>(kernels);
}

}  // namespace psgd
