// Which low_bits are worth trying for Rice codes; see rice.h. No Abseil: nvcc reads this.
#pragma once

#include <cstdint>

#include "common/host_device.h"

namespace psgd {

inline constexpr uint32_t kMostRiceLowBits = 31;

// For geometric gaps the best is near log2(ln 2 * mean), so only that and its neighbors are tried.
struct RiceCandidates {
  uint32_t first = 0;
  uint32_t last = 0;
};

// The candidates for `count` ascending indices of which the last is given. REQUIRES: count > 0.
PS_HD inline RiceCandidates CandidatesFor(uint32_t last_index, uint64_t count) {
  const uint64_t gaps = last_index + 1ull - count;
  const uint64_t scaled = gaps * 69 / (count * 100);
  uint32_t middle = 0;
  while (scaled >> (middle + 1) != 0) ++middle;
  const uint32_t last = middle < kMostRiceLowBits ? middle + 1 : kMostRiceLowBits;
  return {middle == 0 ? 0 : middle - 1, last};
}

}  // namespace psgd
