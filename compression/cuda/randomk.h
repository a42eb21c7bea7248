// randomk on a device. See compression/sparse/randomk.h.
#pragma once

#include "compression/cuda/coder.h"
#include "compression/sparse/density_count.h"
#include "compression/sparse/strata.h"

namespace psgd::cuda {

// Makes the elements of a tile and sends those of them that are drawn.
struct StrataBody {
  using Shared = Nothing;
  Source source;
  uint32_t elements;
  uint32_t count;
  PhiloxKey key;
  uint64_t step;
  uint32_t* payload;

  PS_HD void operator()(const Block& block, Shared&) const {
    const size_t begin = size_t{block.index()} * kTile, end = begin + TileLength(begin, elements);
    block.Each([&](uint32_t thread) {
      if (thread == 0 && begin == 0) StoreHeader();
      if (source.residual == nullptr) return;
      ForRuns<kTile>(source, begin, end, thread, MakeElement{source.residual});
    });
    if (begin == end) return;
    float* values = reinterpret_cast<float*>(payload + 5);
    // The first and the last stratum may reach into other tiles. The tile that has the drawn
    // element sends it.
    const uint32_t first = StratumAt(begin), last = StratumAt(end - 1);
    block.ForEach(last - first + 1, [&](size_t k) {
      const auto j = static_cast<uint32_t>(first + k);
      const Stratum stratum = StratumOf(j, elements, count);
      const uint32_t index = DrawFrom(stratum, Philox(key, j / 4, step).word[j % 4]);
      if (index < begin || index >= end) return;
      const float value = source.Made(index);
      values[j] = source.residual != nullptr ? value : ScaledToStratum(value, stratum.length);
      if (source.residual != nullptr) source.residual[index] = 0;
    });
  }

 private:
  // The stratum that has element i.
  PS_HD uint32_t StratumAt(size_t i) const {
    return static_cast<uint32_t>(((i + 1) * count + elements - 1) / elements - 1);
  }
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
    queue.Launch(std::max(1u, TilesOf(elements_)),
                 StrataBody{input.source, elements_, count_, input.key, input.step,
                            reinterpret_cast<uint32_t*>(output.payload)});
  }

 private:
  const uint32_t elements_;
  const uint32_t count_;
};

}  // namespace psgd::cuda
