// randomk on a device. See compression/sparse/randomk.h.
#pragma once

#include "compression/cuda/coder.h"
#include "compression/sparse/density_count.h"
#include "compression/sparse/strata.h"

namespace psgd::cuda {

struct StrataBody {
  using Shared = Nothing;
  Source source;
  uint32_t elements;
  uint32_t count;
  PhiloxKey key;
  uint64_t step;
  uint32_t* payload;

  PS_HD void operator()(const Block& block, Shared&) const {
    float* values = reinterpret_cast<float*>(payload + 5);
    block.Once([&] {
      if (block.index() == 0) StoreHeader();
    });
    block.ForAll(count, [&](size_t j) {
      const Stratum stratum = StratumOf(static_cast<uint32_t>(j), elements, count);
      const uint32_t index = DrawFrom(stratum, Philox(key, j / 4, step).word[j % 4]);
      const float value = source.Made(index);
      values[j] = source.residual != nullptr ? value : ScaledToStratum(value, stratum.length);
      if (source.residual != nullptr) source.residual[index] = 0;
    });
  }

 private:
  PS_HD void StoreHeader() const {
    payload[0] = count;
    payload[1] = key.low;
    payload[2] = key.high;
    payload[3] = static_cast<uint32_t>(step);
    payload[4] = static_cast<uint32_t>(step >> 32);
  }
};

template <typename Queue>
class CoderOf<RandomkTwin, Queue> final : public Coder<Queue> {
 public:
  CoderOf(const RandomkTwin& twin, uint32_t elements)
      : elements_(elements), count_(static_cast<uint32_t>(CountAt(twin.density, elements))) {}

  size_t Bound(uint64_t) const override { return 20 + count_ * sizeof(float); }
  void Encode(Queue& queue, const CoderInput& input, const CoderOutput& output) override {
    const Source& source = input.source;
    if (source.residual != nullptr) {
      Map(queue, source, elements_, MakeElement{source.residual});
    }
    queue.Launch(count_ == 0 ? 1 : BlocksFor(count_),
                 StrataBody{source, elements_, count_, input.key, input.step,
                            reinterpret_cast<uint32_t*>(output.payload)});
  }

 private:
  const uint32_t elements_;
  const uint32_t count_;
};

}  // namespace psgd::cuda
