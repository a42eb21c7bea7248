// fp16 and bf16 on a device, in one pass. See compression/dense/half_codec.h.
#pragma once

#include "compression/cuda/make_coder.h"
#include "compression/dense/brain.h"
#include "compression/dense/half.h"

namespace psgd::cuda {

struct HalfFormat {
  PS_HD static uint16_t From(float value) { return HalfFromFloat(value); }
  PS_HD static float To(uint16_t half) { return FloatFromHalf(half); }
};
struct BrainFormat {
  PS_HD static uint16_t From(float value) { return BrainFromFloat(value); }
  PS_HD static float To(uint16_t brain) { return FloatFromBrain(brain); }
};

template <typename Format>
struct HalfBody {
  using Shared = Nothing;
  Source source;
  uint32_t elements;
  uint16_t* out;

  PS_HD void operator()(const Block& block, Shared&) const {
    block.ForAll(elements, [&](size_t i) {
      const float corrected = source.Corrected(i);
      const uint16_t half = Format::From(corrected);
      out[i] = half;
      if (source.residual != nullptr) source.residual[i] = corrected - Format::To(half);
    });
  }
};

template <typename Queue, typename Format>
class HalfCoder final : public Coder<Queue> {
 public:
  explicit HalfCoder(uint32_t elements) : elements_(elements) {}

  size_t Bound(uint64_t) const override { return elements_ * sizeof(uint16_t); }
  void Encode(Queue& queue, const CoderInput& input, const CoderOutput& output) override {
    queue.Launch(
        BlocksFor(elements_),
        HalfBody<Format>{input.source, elements_, reinterpret_cast<uint16_t*>(output.payload)});
  }

 private:
  const uint32_t elements_;
};

template <typename Queue>
std::unique_ptr<Coder<Queue>> MakeCoder(const HalfTwin& twin, uint32_t elements) {
  if (twin.brain) return std::make_unique<HalfCoder<Queue, BrainFormat>>(elements);
  return std::make_unique<HalfCoder<Queue, HalfFormat>>(elements);
}

}  // namespace psgd::cuda
