// fp16 and bf16 on a device, in one pass. See compression/dense/half_codec.h.
#pragma once

#include "compression/cuda/coder.h"
#include "compression/dense/brain.h"
#include "compression/dense/half.h"

namespace psgd::cuda {

template <typename Format>
struct SendHalf {
  Source source;
  uint16_t* out;

  PS_HD float Read(size_t i) const { return source.Corrected(i); }
  PS_HD void Write(size_t i, float corrected) const {
    const uint16_t half = Format::From(corrected);
    out[i] = half;
    if (source.residual != nullptr) source.residual[i] = corrected - Format::To(half);
  }
};

template <typename Queue>
class CoderOf<HalfTwin, Queue> final : public Coder<Queue> {
 public:
  CoderOf(const HalfTwin& twin, uint32_t elements) : brain_(twin.brain), elements_(elements) {}

  size_t Bound(uint64_t) const override { return elements_ * sizeof(uint16_t); }
  void Encode(Queue& queue, const CoderInput& input, const CoderOutput& output) override {
    uint16_t* const out = reinterpret_cast<uint16_t*>(output.payload);
    if (brain_) {
      Map(queue, elements_, SendHalf<BrainFormat>{input.source, out});
    } else {
      Map(queue, elements_, SendHalf<HalfFormat>{input.source, out});
    }
  }

 private:
  const bool brain_;
  const uint32_t elements_;
};

}  // namespace psgd::cuda
