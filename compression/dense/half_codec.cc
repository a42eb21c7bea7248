#include "compression/dense/half_codec.h"

#include <algorithm>

#include "compression/codec_checks.h"
#include "compression/dense/bf16.h"
#include "compression/dense/fp16.h"
#include "compression/dense/half.h"
#include "compression/payload_bytes.h"

namespace psgd {
namespace {

class HalfEncoder final : public Encoder {
 public:
  explicit HalfEncoder(const HalfKernels& kernels) : kernels_(kernels) {}

  void Encode(const EncodeInput& input, std::vector<std::byte>* out) override {
    const size_t elements = input.gradient.size();
    Reserve(elements * kHalfBytes, out);
    for (size_t begin = 0; begin < elements; begin += kEncodeBlock) {
      const size_t count = std::min(kEncodeBlock, elements - begin);
      kernels_.encode(input.gradient.subspan(begin, count),
                      input.residual.empty() ? nullptr : input.residual.data() + begin,
                      Grow(count * kHalfBytes, out));
    }
  }

 private:
  const HalfKernels& kernels_;
};

class HalfReader final : public PayloadReader {
 public:
  HalfReader(ByteSpan payload, const HalfKernels& kernels)
      : PayloadReader(static_cast<uint32_t>(payload.size() / kHalfBytes)),
        kernels_(kernels),
        payload_(payload),
        next_(payload.data()) {}

  void AddBlock(float scale, std::span<float> block) override {
    kernels_.add(scale, next_, block);
    next_ += block.size() * kHalfBytes;
  }

  // In both formats, a larger magnitude has larger bits.
  float Largest() const override {
    int16_t largest = 0;
    for (size_t i = 0; i < elements(); ++i) {
      const auto bits = LoadField<int16_t>(payload_.data() + i * kHalfBytes);
      largest = std::max(largest, static_cast<int16_t>(bits & 0x7FFF));
    }
    float value = 0;
    kernels_.add(1, reinterpret_cast<const std::byte*>(&largest), {&value, 1});
    return value;
  }

 private:
  const HalfKernels& kernels_;
  const ByteSpan payload_;
  const std::byte* next_;
};

class HalfCodec final : public Codec {
 public:
  HalfCodec(CodecId id, absl::string_view name, const HalfKernels& halves,
            const CodecKernels& kernels)
      : Codec(id, name, kernels), halves_(halves) {}

  std::optional<TwinCodec> Twin(const SliceShape&) const override {
    return HalfTwin{.brain = id() == CODEC_BF16};
  }
  std::unique_ptr<Encoder> NewEncoder(const SliceShape&) const override {
    return std::make_unique<HalfEncoder>(halves_);
  }
  StatusOrReader Open(ByteSpan payload, const SliceShape& shape) const override {
    return OpenHalves(payload, shape.elements, name(), halves_);
  }
  size_t MaxPayload(uint32_t elements) const override { return elements * kHalfBytes; }

 private:
  const HalfKernels& halves_;
};

}  // namespace

StatusOrReader OpenHalves(ByteSpan halves, uint32_t elements, absl::string_view name,
                          const HalfKernels& kernels) {
  PSGD_RETURN_IF_ERROR(CheckLength(name, halves, elements, size_t{elements} * kHalfBytes));
  if (!kernels.all_finite(halves.data(), elements)) return NotFinite(name);
  return std::make_unique<HalfReader>(halves, kernels);
}

std::unique_ptr<Codec> MakeFp16(const CodecKernels& kernels) {
  return std::make_unique<HalfCodec>(CODEC_FP16, "fp16", kernels.fp16, kernels);
}

std::unique_ptr<Codec> MakeBf16(const CodecKernels& kernels) {
  return std::make_unique<HalfCodec>(CODEC_BF16, "bf16", kernels.bf16, kernels);
}

}  // namespace psgd
