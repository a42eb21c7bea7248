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
  static constexpr bool kChoosesZeros = true;
  Source source;
  float momentum;
  const float* scale;  // null: 1
  float* velocity;
  bool masks;  // whether the velocity of sent elements becomes 0

  PS_HD float Moved(size_t i) const {
    return momentum * velocity[i] + (scale == nullptr ? 1 : *scale) * source.Gradient(i);
  }
  PS_HD float Corrected(size_t i) const { return With(i, Moved(i)); }
  PS_HD float Make(size_t i) const {
    const float moved = Moved(i), made = With(i, moved);
    velocity[i] = moved;
    if (source.residual != nullptr) source.residual[i] = made;
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

struct SquareOfGradient {
  Source source;
  PS_HD float Make(size_t i) const { return source.Gradient(i); }
  PS_HD static double Of(float value) { return static_cast<double>(value) * value; }
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
    WriteEntries(queue, maker, entries, ValueCoding::kFloat, -1, output);
  }

 private:
  uint32_t KeepAt(uint64_t step) const {
    const double density = WarmUpDensity(options_.density, step, options_.warmup);
    return static_cast<uint32_t>(
        WorthSending(CountAt(density, elements_), elements_, ValueCoding::kFloat));
  }

  const float* Scale(Queue& queue, const Source& source) const {
    if (options_.limit == 0) return nullptr;
    const uint32_t stretches = StretchesOf(elements_);
    double* part = queue.template Scratch<double>(stretches);
    float* scale = queue.template Scratch<float>(1);
    queue.Launch(stretches, StretchSumBody<KnownCount, SquareOfGradient>{
                                {elements_}, {source}, part, nullptr});
    queue.Launch(1, FoldBody<KnownCount, UseAsScale>{part, {stretches}, {options_.limit, scale}});
    return scale;
  }

  const DgcTwin options_;
  const uint32_t elements_;
};

}  // namespace psgd::cuda
