// none on a device. With compression.push: auto, it sends the residual that another codec left. See
// compression/dense/none.h.
#pragma once

#include "compression/cuda/coder.h"

namespace psgd::cuda {

struct SendAsIs {
  Source source;
  float* out;

  PS_HD float Read(size_t i) const { return source.Corrected(i); }
  PS_HD void Write(size_t i, float corrected) const {
    out[i] = corrected;
    if (source.residual != nullptr) source.residual[i] = 0;
  }
};

template <typename Queue>
class CoderOf<NoneTwin, Queue> final : public Coder<Queue> {
 public:
  CoderOf(const NoneTwin&, uint32_t elements) : elements_(elements) {}

  size_t Bound(uint64_t) const override { return elements_ * sizeof(float); }
  void Encode(Queue& queue, const CoderInput& input, const CoderOutput& output) override {
    Map(queue, elements_, SendAsIs{input.source, reinterpret_cast<float*>(output.payload)});
  }

 private:
  const uint32_t elements_;
};

}  // namespace psgd::cuda
