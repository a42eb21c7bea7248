#include "compression/dense/sign.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "compression/coarse.h"
#include "compression/dense/sign_bits.h"
#include "compression/payload_bytes.h"

namespace psgd {
namespace {

constexpr size_t kHeaderBytes = 4;

class SignEncoder final : public Encoder {
 public:
  explicit SignEncoder(const CodecKernels& kernels) : kernels_(kernels) {}

  void Encode(const EncodeInput& input, std::vector<std::byte>* out) override {
    const size_t elements = input.gradient.size();
    std::byte* payload = Grow(kHeaderBytes + SignBytes(elements), out);
    std::byte* bits = payload + kHeaderBytes;
    const double sum = SplitAllSigns(input.gradient, input.residual, bits, kernels_);
    // Not finite if the values are not, so that a shard refuses what the caller let through.
    const float value = CoarseMean(sum, elements);
    StoreField(value, payload);
    kernels_.onebit.add(bits, 0, -value, value, input.residual);
  }

 private:
  const CodecKernels& kernels_;
};

class Sign final : public Codec {
 public:
  explicit Sign(const CodecKernels& kernels) : kernels_(kernels) {}

  CodecId id() const override { return CODEC_SIGN; }
  absl::string_view name() const override { return "sign"; }
  bool lossless() const override { return false; }
  std::unique_ptr<Encoder> NewEncoder(const SliceShape&) const override {
    return std::make_unique<SignEncoder>(kernels_);
  }

  absl::StatusOr<std::unique_ptr<PayloadReader>> Open(ByteSpan payload,
                                                      const SliceShape& shape) const override {
    if (payload.size() != MaxPayload(shape.elements)) {
      return absl::InvalidArgumentError(
          absl::StrCat("sign payload of ", payload.size(), " bytes for ", shape.elements,
                       " elements: ", MaxPayload(shape.elements), " expected"));
    }
    const float value = LoadField<float>(payload.data());
    if (!std::isfinite(value)) return absl::OutOfRangeError("sign value is not finite");
    if (std::signbit(value)) return absl::InvalidArgumentError("sign value is negative");
    if (!NoSignsBeyond(payload.subspan(kHeaderBytes), shape.elements)) {
      return absl::InvalidArgumentError("sign payload has bits beyond its last element");
    }
    return std::make_unique<SignReader>(shape.elements, value, payload.data() + kHeaderBytes,
                                        kernels_);
  }

  size_t MaxPayload(uint32_t elements) const override { return kHeaderBytes + SignBytes(elements); }

 private:
  const CodecKernels& kernels_;
};

}  // namespace

std::unique_ptr<Codec> MakeSign(const CodecKernels& kernels) {
  return std::make_unique<Sign>(kernels);
}

}  // namespace psgd
