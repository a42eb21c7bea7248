// One bit per element, on a device: shared by onebit, sign, signum and natural. See
// compression/dense/sign_bits.h.
#pragma once

#include "compression/cuda/block_tiles.h"

namespace psgd::cuda {

PS_HD constexpr size_t BitBytes(size_t elements) { return (elements + 7) / 8; }

struct SignPair {
  float high, low;
};

// A phase: stores the signs of a tile's first `count` numbers, 1 for at least 0, and leaves in the
// residual, if it is not null, what of(i) does not send of number i.
template <typename Of>
PS_HD void SendSigns(const Block& block, const float* tile, uint32_t count, float* residual,
                     uint32_t* words, Of of) {
  block.Bits(
      count,
      [&](uint32_t i) {
        const float value = tile[i];
        const bool bit = value >= 0;
        if (residual != nullptr) {
          const SignPair sent = of(i);
          residual[i] = value + (bit ? -sent.high : -sent.low);
        }
        return bit;
      },
      [&](uint32_t w, uint32_t bits) { words[w] = bits; });
}

// Sums of runs of elements, split by sign. The sums are in lanes of floats; if these overflow, they
// are made one by one in double.
struct SplitLanes {
  float positive[kMostTeams * kLanes];
  float negative[kMostTeams * kLanes];
  uint32_t positives[kMostTeams * kLanes];

  // Sums one lane's elements of a tile, behind those of earlier tiles of the run.
  PS_HD void Add(const TileLane& at, const float* tile) {
    float high = at.first ? 0 : positive[at.index], low = at.first ? 0 : negative[at.index];
    uint32_t count = at.first ? 0 : positives[at.index];
    for (uint32_t i = at.begin; i < at.end; i += kLanes) {
      const float value = tile[i];
      const bool bit = value >= 0;
      (bit ? high : low) += value;
      count += bit;
    }
    positive[at.index] = high;
    negative[at.index] = low;
    positives[at.index] = count;
  }
};

struct SplitSums {
  double positive = 0;
  double negative = 0;
  uint32_t positives = 0;
};

PS_HD inline bool IsFinite(double value) {
  return std::fabs(value) <= std::numeric_limits<double>::max();
}

// Folds the lanes of a team, whose run has `count` elements of the source. REQUIRES: all lanes of
// the run are summed.
PS_HD inline SplitSums FoldSplit(const Source& source, size_t begin, size_t count,
                                 const SplitLanes& lanes, uint32_t team) {
  const uint32_t first = team * kLanes;
  SplitSums sums;
  sums.positive = SumOfLanes(lanes.positive + first);
  sums.negative = SumOfLanes(lanes.negative + first);
  for (uint32_t lane = 0; lane < kLanes; ++lane) sums.positives += lanes.positives[first + lane];
  if (IsFinite(sums.positive) && IsFinite(sums.negative)) return sums;
  sums.positive = sums.negative = 0;
  for (size_t i = begin; i < begin + count; ++i) {
    const float value = source.Corrected(i);
    (value >= 0 ? sums.positive : sums.negative) += value;
  }
  return sums;
}

}  // namespace psgd::cuda
