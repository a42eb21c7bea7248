#include "compression/dense/natural.h"

#include <cstring>

#include "compression/codec_checks.h"
#include "compression/dense/sign_bits.h"
#include "compression/payload_bytes.h"
#include "compression/twinned_codec.h"

namespace psgd {
namespace {

class NaturalEncoder final : public Encoder {
 public:
  NaturalEncoder(const NaturalTwin&, const CodecKernels& kernels) : kernels_(kernels) {}

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

class Natural final : public TwinnedCodec<NaturalTwin, NaturalEncoder> {
 public:
  using TwinnedCodec::TwinnedCodec;

  StatusOrReader Open(ByteSpan payload, const SliceShape& shape) const override {
    const size_t elements = shape.elements;
    PSGD_RETURN_IF_ERROR(CheckLength(name(), payload, elements, MaxPayload(shape.elements)));
    if (elements > 0 && std::memchr(payload.data(), kNaturalNotFinite, elements) != nullptr) {
      return NotFinite(name());
    }
    PSGD_RETURN_IF_ERROR(CheckSigns(name(), payload.subspan(elements), elements));
    return std::make_unique<NaturalReader>(shape.elements, payload, kernels());
  }

  size_t MaxPayload(uint32_t elements) const override { return elements + SignBytes(elements); }
};

}  // namespace

std::unique_ptr<Codec> MakeNatural(const CodecKernels& kernels) {
  return std::make_unique<Natural>(CODEC_NATURAL, "natural", NaturalTwin{}, kernels);
}

}  // namespace psgd
