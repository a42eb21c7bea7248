// fp16 and bf16 on a device, in one pass. See compression/dense/half_codec.h.
#pragma once

#include "compression/cuda/coder.h"
#include "compression/dense/brain.h"
#include "compression/dense/half.h"

namespace psgd::cuda {

template <typename Format>
struct SendHalf {
  float* residual;
  uint16_t* out;

  PS_HD void operator()(size_t i, const Four& values, uint32_t count) const {
    FourHalves halves;
    Four left;
    for (uint32_t k = 0; k < 4; ++k) {
      halves.at[k] = Format::From(values.at[k]);
      left.at[k] = values.at[k] - Format::To(halves.at[k]);
    }
    if (count == 4) {
      *reinterpret_cast<FourHalves*>(out + i) = halves;
    } else {
      for (uint32_t k = 0; k < count; ++k) out[i + k] = halves.at[k];
    }
    if (residual != nullptr) StoreFour(residual + i, left, count);
  }

 private:
  struct alignas(8) FourHalves {
    uint16_t at[4];
  };
};

template <typename Queue>
class CoderOf<HalfTwin, Queue> final : public Coder<Queue> {
 public:
  CoderOf(const HalfTwin& twin, uint32_t elements) : brain_(twin.brain), elements_(elements) {}

  size_t Bound(uint64_t) const override { return elements_ * sizeof(uint16_t); }
  void Encode(Queue& queue, const CoderInput& input, const CoderOutput& output) override {
    uint16_t* const out = reinterpret_cast<uint16_t*>(output.payload);
    float* const residual = input.source.residual;
    if (brain_) {
      Map(queue, input.source, elements_, SendHalf<BrainFormat>{residual, out});
    } else {
      Map(queue, input.source, elements_, SendHalf<HalfFormat>{residual, out});
    }
  }

 private:
  const bool brain_;
  const uint32_t elements_;
};

}  // namespace psgd::cuda
