#include "compression/dense/none.h"

#include <algorithm>
#include <cmath>

#include "compression/codec_checks.h"
#include "compression/payload_bytes.h"
#include "compression/twinned_codec.h"

namespace psgd {
namespace {

class NoneEncoder final : public Encoder {
 public:
  NoneEncoder(const NoneTwin&, const CodecKernels& kernels) : kernels_(kernels) {}

  void Encode(const EncodeInput& input, std::vector<std::byte>* out) override {
    if (input.residual.empty()) {
      Append(input.gradient, out);
      return;
    }
    const size_t elements = input.gradient.size();
    Reserve(input.gradient.size_bytes(), out);
    for (size_t begin = 0; begin < elements; begin += kEncodeBlock) {
      const size_t count = std::min(kEncodeBlock, elements - begin);
      const std::span<float> residual = input.residual.subspan(begin, count);
      kernels_.dense.add(input.gradient.subspan(begin, count), residual);
      Append(residual, out);
      std::fill(residual.begin(), residual.end(), 0.0f);
    }
  }

 private:
  static void Append(std::span<const float> values, std::vector<std::byte>* out) {
    const ByteSpan bytes = AsBytes(values);
    out->insert(out->end(), bytes.begin(), bytes.end());
  }

  const CodecKernels& kernels_;
};

class NoneReader final : public PayloadReader {
 public:
  NoneReader(ByteSpan payload, float largest, const CodecKernels& kernels)
      : PayloadReader(static_cast<uint32_t>(payload.size() / sizeof(float))),
        kernels_(kernels),
        payload_(payload),
        largest_(largest) {}

  void AddBlock(float scale, std::span<float> block) override {
    kernels_.dense.add_scaled(scale, payload_.data() + position_, block);
    position_ += block.size_bytes();
  }

  float Largest() const override { return largest_; }

  std::span<const float> Direct() const override {
    const bool aligned = reinterpret_cast<uintptr_t>(payload_.data()) % alignof(float) == 0;
    if (!aligned) return {};
    return {reinterpret_cast<const float*>(payload_.data()), elements()};
  }

 private:
  const CodecKernels& kernels_;
  const ByteSpan payload_;
  const float largest_;
  size_t position_ = 0;
};

class None final : public TwinnedCodec<NoneTwin, NoneEncoder> {
 public:
  using TwinnedCodec::TwinnedCodec;

  bool lossless() const override { return true; }
  StatusOrReader Open(ByteSpan payload, const SliceShape& shape) const override {
    PSGD_RETURN_IF_ERROR(CheckLength(name(), payload, shape.elements, MaxPayload(shape.elements)));
    const float largest = kernels().dense.largest(payload.data(), shape.elements);
    if (!std::isfinite(largest)) return NotFinite(name());
    return std::make_unique<NoneReader>(payload, largest, kernels());
  }
  size_t MaxPayload(uint32_t elements) const override { return elements * sizeof(float); }
};

}  // namespace

std::unique_ptr<Codec> MakeNone(const CodecKernels& kernels) {
  return std::make_unique<None>(CODEC_NONE, "none", NoneTwin{}, kernels);
}

}  // namespace psgd
