// none on a device. With compression.push: auto, it sends the residual that another codec left. See
// compression/dense/none.h.
#pragma once

#include "compression/cuda/coder.h"

namespace psgd::cuda {

struct SendAsIs {
  float* residual;
  float* out;

  template <typename Count>
  PS_HD void operator()(size_t i, const Four& values, Count count) const {
    StoreFour(out + i, values, count);
    if (residual != nullptr) StoreFour(residual + i, {}, count);
  }
};

template <typename Queue>
class CoderOf<NoneTwin, Queue> final : public Coder<Queue> {
 public:
  CoderOf(const NoneTwin&, uint32_t elements) : elements_(elements) {}

  size_t Bound(uint64_t) const override { return elements_ * sizeof(float); }
  void Encode(Queue& queue, const CoderInput& input, const CoderOutput& output) override {
    Map(queue, input.source, elements_,
        SendAsIs{input.source.residual, reinterpret_cast<float*>(output.payload)});
  }

 private:
  const uint32_t elements_;
};

}  // namespace psgd::cuda
