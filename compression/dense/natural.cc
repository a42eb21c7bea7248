#include "compression/dense/natural.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "compression/dense/sign_bits.h"
#include "compression/payload_bytes.h"

namespace psgd {
namespace {

class NaturalEncoder final : public Encoder {
 public:
  explicit NaturalEncoder(const CodecKernels& kernels) : kernels_(kernels) {}

  void Encode(const EncodeInput& input, std::vector<std::byte>* out) override {
    const size_t elements = input.gradient.size();
    std::byte* exponents = Grow(elements + SignBytes(elements), out);
    kernels_.natural.encode(input.gradient,
                            input.residual.empty() ? nullptr : input.residual.data(),
                            {input.key, input.step}, exponents, exponents + elements);
  }

 private:
  const CodecKernels& kernels_;
};

class NaturalReader final : public PayloadReader {
 public:
  NaturalReader(uint32_t elements, ByteSpan payload, const CodecKernels& kernels)
      : PayloadReader(elements), payload_(payload), kernels_(kernels) {}

  void AddBlock(float scale, std::span<float> block) override {
    kernels_.natural.add(payload_.data(), payload_.data() + elements(), position_, scale, block);
    position_ += block.size();
  }
  float Largest() const override {
    uint8_t largest = 0;
    for (const std::byte exponent : payload_.first(elements())) {
      largest = std::max(largest, std::to_integer<uint8_t>(exponent));
    }
    return NaturalValue(largest, /*negative=*/false);
  }

 private:
  const ByteSpan payload_;
  const CodecKernels& kernels_;
  size_t position_ = 0;
};

class Natural final : public Codec {
 public:
  explicit Natural(const CodecKernels& kernels) : kernels_(kernels) {}

  CodecId id() const override { return CODEC_NATURAL; }
  absl::string_view name() const override { return "natural"; }
  bool lossless() const override { return false; }
  std::unique_ptr<Encoder> NewEncoder(const SliceShape&) const override {
    return std::make_unique<NaturalEncoder>(kernels_);
  }

  absl::StatusOr<std::unique_ptr<PayloadReader>> Open(ByteSpan payload,
                                                      const SliceShape& shape) const override {
    const size_t elements = shape.elements;
    if (payload.size() != MaxPayload(shape.elements)) {
      return absl::InvalidArgumentError(
          absl::StrCat("natural payload of ", payload.size(), " bytes for ", elements,
                       " elements: ", MaxPayload(shape.elements), " expected"));
    }
    if (elements > 0 && std::memchr(payload.data(), kNaturalNotFinite, elements) != nullptr) {
      return absl::OutOfRangeError("natural payload holds NaN or infinity");
    }
    if (!NoSignsBeyond(payload.subspan(elements), elements)) {
      return absl::InvalidArgumentError("natural payload has bits beyond its last element");
    }
    return std::make_unique<NaturalReader>(shape.elements, payload, kernels_);
  }

  size_t MaxPayload(uint32_t elements) const override { return elements + SignBytes(elements); }

 private:
  const CodecKernels& kernels_;
};

}  // namespace

std::unique_ptr<Codec> MakeNatural(const CodecKernels& kernels) {
  return std::make_unique<Natural>(kernels);
}

}  // namespace psgd
