// none on a device. With compression.push: auto, it sends the residual that another codec left. See
// compression/dense/none.h.
#pragma once

#include "compression/cuda/make_coder.h"

namespace psgd::cuda {

struct NoneBody {
  using Shared = Nothing;
  Source source;
  uint32_t elements;
  float* out;

  PS_HD void operator()(const Block& block, Shared&) const {
    block.ForAll(elements, [&](size_t i) {
      out[i] = source.Corrected(i);
      if (source.residual != nullptr) source.residual[i] = 0;
    });
  }
};

template <typename Queue>
class NoneCoder final : public Coder<Queue> {
 public:
  explicit NoneCoder(uint32_t elements) : elements_(elements) {}

  size_t Bound(uint64_t) const override { return elements_ * sizeof(float); }
  void Encode(Queue& queue, const CoderInput& input, const CoderOutput& output) override {
    queue.Launch(BlocksFor(elements_),
                 NoneBody{input.source, elements_, reinterpret_cast<float*>(output.payload)});
  }

 private:
  const uint32_t elements_;
};

template <typename Queue>
std::unique_ptr<Coder<Queue>> MakeCoder(const NoneTwin&, uint32_t elements) {
  return std::make_unique<NoneCoder<Queue>>(elements);
}

}  // namespace psgd::cuda
