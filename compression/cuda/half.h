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

  template <typename Count>
  PS_HD void operator()(size_t i, const Four& values, Count count) const {
    uint64_t halves = 0;
    Four left;
    for (uint32_t k = 0; k < 4; ++k) {
      const uint16_t half = Format::From(values.at[k]);
      halves |= uint64_t{half} << (16 * k);
      left.at[k] = values.at[k] - Format::To(half);
    }
    if constexpr (std::is_same_v<Count, Whole>) {
      *reinterpret_cast<uint64_t*>(out + i) = halves;
    } else {
      for (uint32_t k = 0; k < count; ++k) out[i + k] = static_cast<uint16_t>(halves >> (16 * k));
    }
    if (residual != nullptr) StoreFour(residual + i, left, count);
  }
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
