// dgc on a device. See compression/sparse/dgc.h.
#pragma once

#include "compression/cuda/coder.h"
#include "compression/cuda/sparse.h"
#include "compression/sparse/density_count.h"
#include "compression/sparse/dgc_schedule.h"

namespace psgd::cuda {

// residual + velocity, where velocity = momentum * velocity + scale * gradient. Without a residual
// the number is the velocity alone.
struct VelocityMaker {
  Source source;
  float momentum;
  const float* scale;  // null: 1
  float* velocity;
  bool masks;  // whether the velocity of sent elements becomes 0

  PS_HD Source In() const {
    Source moved = source;
    moved.residual = velocity;
    moved.residual_decay = momentum;
    if (scale != nullptr) moved.scale = *scale;
    return moved;
  }
  PS_HD float Corrected(size_t i) const { return With(i, In().Corrected(i)); }
  template <typename Count>
  PS_HD void Store(size_t i, Four& values, Count count) const {
    StoreFour(velocity + i, values, count);
    if (source.residual == nullptr) return;
    for (uint32_t k = 0; k < count; ++k) values.at[k] = With(i + k, values.at[k]);
    StoreFour(source.residual + i, values, count);
  }
  PS_HD Source Out() const {
    Source made;
    made.gradient = source.residual == nullptr ? velocity : source.residual;
    return made;
  }
  PS_HD float Made(size_t i) const {
    return source.residual == nullptr ? velocity[i] : source.residual[i];
  }
  PS_HD void Leave(size_t i, float left) const {
    if (source.residual != nullptr) source.residual[i] = left;
    if (masks) velocity[i] = 0;
  }

 private:
  PS_HD float With(size_t i, float moved) const {
    return source.residual == nullptr ? moved : source.residual_decay * source.residual[i] + moved;
  }
};

struct UseAsScale {
  double limit;
  float* scale;
  PS_HD void operator()(double squares) const { *scale = ClippingScale(squares, limit); }
};

template <typename Queue>
class CoderOf<DgcTwin, Queue> final : public Coder<Queue> {
 public:
  CoderOf(const DgcTwin& options, uint32_t elements) : options_(options), elements_(elements) {}

  size_t Bound(uint64_t step) const override {
    return SparseBound(MostChosen(KeepAt(step), true, elements_), elements_, ValueCoding::kFloat);
  }
  bool varies() const override { return true; }
  void Encode(Queue& queue, const CoderInput& input, const CoderOutput& output) override {
    const uint32_t keep = KeepAt(input.step);
    const VelocityMaker maker = {input.source, options_.momentum, Scale(queue, input.source),
                                 input.state, keep < elements_};
    const Entries entries = ChooseLargest(queue, maker, elements_, keep, true);
    WriteEntries(queue, maker, entries, elements_, ValueCoding::kFloat, -1, output);
  }

 private:
  uint32_t KeepAt(uint64_t step) const {
    const double density = WarmUpDensity(options_.density, step, options_.warmup);
    return static_cast<uint32_t>(
        WorthSending(CountAt(density, elements_), elements_, ValueCoding::kFloat));
  }

  const float* Scale(Queue& queue, Source source) const {
    if (options_.limit == 0) return nullptr;
    float* scale = queue.template Scratch<float>(1);
    source.residual = nullptr;
    SumSquares(queue, source, elements_, nullptr, nullptr, UseAsScale{options_.limit, scale});
    return scale;
  }

  const DgcTwin options_;
  const uint32_t elements_;
};

}  // namespace psgd::cuda
