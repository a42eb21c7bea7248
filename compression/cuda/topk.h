// topk and threshold on a device. See compression/sparse/topk.h and threshold.h.
#pragma once

#include "compression/cuda/coder.h"
#include "compression/cuda/sparse.h"
#include "compression/sparse/density_count.h"

namespace psgd::cuda {

// Gradient + residual, as numbers to choose from.
struct CorrectedMaker {
  Source source;
  PS_HD float Corrected(size_t i) const { return source.Corrected(i); }
  PS_HD Source In() const { return source; }
  template <typename Count>
  PS_HD void Store(size_t i, Four& values, Count count) const {
    if (source.residual != nullptr) StoreFour(source.residual + i, values, count);
  }
  PS_HD Source Out() const { return source.AsMade(); }
  PS_HD float Made(size_t i) const { return source.Made(i); }
  PS_HD void Leave(size_t i, float left) const {
    if (source.residual != nullptr) source.residual[i] = left;
  }
};

template <typename Queue>
class CoderOf<TopkTwin, Queue> final : public Coder<Queue> {
 public:
  CoderOf(const TopkTwin& options, uint32_t elements)
      : options_(options),
        elements_(elements),
        keep_(static_cast<uint32_t>(
            WorthSending(CountAt(options.density, elements), elements, options.values))) {}

  size_t Bound(uint64_t) const override {
    return SparseBound(MostChosen(keep_, options_.sampled, elements_), elements_, options_.values);
  }
  bool varies() const override { return true; }
  void Encode(Queue& queue, const CoderInput& input, const CoderOutput& output) override {
    const CorrectedMaker maker = {input.source};
    const Entries entries = ChooseLargest(queue, maker, elements_, keep_, options_.sampled);
    WriteEntries(queue, maker, entries, elements_, options_.values, -1, output);
  }

 private:
  const TopkTwin options_;
  const uint32_t elements_;
  const uint32_t keep_;
};

template <typename Queue>
class CoderOf<ThresholdTwin, Queue> final : public Coder<Queue> {
 public:
  CoderOf(const ThresholdTwin& twin, uint32_t elements) : tau_(twin.tau), elements_(elements) {}

  size_t Bound(uint64_t) const override {
    return SparseBound(elements_, elements_, ValueCoding::kSign);
  }
  bool varies() const override { return true; }
  void Encode(Queue& queue, const CoderInput& input, const CoderOutput& output) override {
    const CorrectedMaker maker = {input.source};
    const Entries entries = ChooseReaching(queue, maker, elements_, MagnitudeBits(tau_));
    WriteEntries(queue, maker, entries, elements_, ValueCoding::kSign, tau_, output);
  }

 private:
  const float tau_;
  const uint32_t elements_;
};

}  // namespace psgd::cuda
