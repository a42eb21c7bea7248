// One bit per element, on a device: shared by onebit, sign and signum. See
// compression/dense/sign_bits.h.
#pragma once

#include "compression/cuda/sums.h"

namespace psgd::cuda {

PS_HD constexpr size_t BitBytes(size_t elements) { return (elements + 7) / 8; }

// Returns byte `b` of the bits of that many elements.
template <typename Bit>
PS_HD std::byte ByteOfBits(size_t b, size_t elements, const Bit& bit) {
  unsigned bits = 0;
  for (size_t i = b * 8; i < elements && i < b * 8 + 8; ++i) {
    bits |= static_cast<unsigned>(bit(i)) << (i % 8);
  }
  return static_cast<std::byte>(bits);
}

// Returns byte `b` of the signs, 1 for at least 0. Takes `high` or `low` off the residual.
PS_HD inline std::byte SendSigns(const Source& source, size_t begin, size_t b, size_t elements,
                                 float high, float low) {
  return ByteOfBits(b, elements, [&](size_t i) {
    const float value = source.Made(begin + i);
    const bool bit = value >= 0;
    if (source.residual != nullptr) source.residual[begin + i] = value + (bit ? -high : -low);
    return bit;
  });
}

// Sums of one run of elements, split by sign. The sums are in lanes of floats; if these overflow,
// they are made one by one in double. A team of kLanes threads has one run.
struct SplitLanes {
  float positive[kTeams][kLanes];
  float negative[kTeams][kLanes];
  uint32_t positives[kTeams][kLanes];
};

struct SplitSums {
  double positive = 0;
  double negative = 0;
  uint32_t positives = 0;
};

// Makes one lane's elements and sums them.
PS_HD inline void SplitLane(const Source& source, size_t begin, size_t count, uint32_t thread,
                            SplitLanes* lanes) {
  const uint32_t team = thread / kLanes, lane = thread % kLanes;
  float positive = 0, negative = 0;
  uint32_t positives = 0;
  for (size_t i = lane; i < count; i += kLanes) {
    const float value = source.Make(begin + i);
    const bool bit = value >= 0;
    (bit ? positive : negative) += value;
    positives += bit;
  }
  lanes->positive[team][lane] = positive;
  lanes->negative[team][lane] = negative;
  lanes->positives[team][lane] = positives;
}

PS_HD inline bool IsFinite(double value) {
  return std::fabs(value) <= std::numeric_limits<double>::max();
}

// Folds the lanes of a run. REQUIRES: all lanes of the run are summed.
PS_HD inline SplitSums FoldSplit(const Source& source, size_t begin, size_t count,
                                 const SplitLanes& lanes, uint32_t team) {
  SplitSums sums;
  sums.positive = SumOfLanes(lanes.positive[team]);
  sums.negative = SumOfLanes(lanes.negative[team]);
  for (uint32_t positives : lanes.positives[team]) sums.positives += positives;
  if (IsFinite(sums.positive) && IsFinite(sums.negative)) return sums;
  sums.positive = sums.negative = 0;
  for (size_t i = begin; i < begin + count; ++i) {
    const float value = source.Made(i);
    (value >= 0 ? sums.positive : sums.negative) += value;
  }
  return sums;
}

}  // namespace psgd::cuda
