#include "compression/fp16.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compression/payload_bytes.h"

namespace psgd {
namespace {

constexpr size_t kHalfBytes = 2;

class Fp16Encoder final : public Encoder {
 public:
  explicit Fp16Encoder(const CodecKernels& kernels) : kernels_(kernels) {}

  void Encode(const EncodeInput& input, std::vector<std::byte>* out) override {
    const size_t elements = input.gradient.size();
    Reserve(elements * kHalfBytes, out);
    for (size_t begin = 0; begin < elements; begin += kEncodeBlock) {
      const size_t count = std::min(kEncodeBlock, elements - begin);
      kernels_.fp16.encode(input.gradient.subspan(begin, count),
                           input.residual.empty() ? nullptr : input.residual.data() + begin,
                           Grow(count * kHalfBytes, out));
    }
  }

 private:
  const CodecKernels& kernels_;
};

class Fp16Reader final : public PayloadReader {
 public:
  Fp16Reader(ByteSpan payload, const CodecKernels& kernels)
      : PayloadReader(static_cast<uint32_t>(payload.size() / kHalfBytes)),
        kernels_(kernels),
        next_(payload.data()) {}

  void AddBlock(float scale, std::span<float> block) override {
    kernels_.fp16.add(scale, next_, block);
    next_ += block.size() * kHalfBytes;
  }

 private:
  const CodecKernels& kernels_;
  const std::byte* next_;
};

class Fp16 final : public Codec {
 public:
  explicit Fp16(const CodecKernels& kernels) : kernels_(kernels) {}

  CodecId id() const override { return CODEC_FP16; }
  absl::string_view name() const override { return "fp16"; }
  bool lossless() const override { return false; }
  std::unique_ptr<Encoder> NewEncoder(const SliceShape&) const override {
    return std::make_unique<Fp16Encoder>(kernels_);
  }
  absl::StatusOr<std::unique_ptr<PayloadReader>> Open(ByteSpan payload,
                                                      const SliceShape& shape) const override {
    if (payload.size() != MaxPayload(shape.elements)) {
      return absl::InvalidArgumentError(absl::StrCat("fp16 payload of ", payload.size(),
                                                     " bytes for ", shape.elements,
                                                     " elements: 2 bytes each expected"));
    }
    if (!kernels_.fp16.all_finite(payload.data(), shape.elements)) {
      return absl::OutOfRangeError("fp16 payload holds NaN or infinity");
    }
    return std::make_unique<Fp16Reader>(payload, kernels_);
  }
  size_t MaxPayload(uint32_t elements) const override { return elements * kHalfBytes; }

 private:
  const CodecKernels& kernels_;
};

}  // namespace

std::unique_ptr<Codec> MakeFp16(const CodecKernels& kernels) {
  return std::make_unique<Fp16>(kernels);
}

}  // namespace psgd
