// What ternary measures in a slice, and how it draws; see ternary.h. No Abseil: nvcc reads this.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "common/host_device.h"
#include "compression/coarse.h"

namespace psgd {

struct Moments {
  float largest = 0;  // magnitude
  double sum_squares = 0;
};

// The elements that were drawn.
struct Drawn {
  double sum = 0;  // of their magnitudes; infinite if a short sum overflows fp32
  uint64_t count = 0;
};

// Returns NaN if the values are not finite, so that a shard refuses what the caller let through.
PS_HD inline float TernaryLimit(const Moments& moments, double clip, uint64_t elements) {
  if (elements == 0) return 0;
  if (!(moments.sum_squares <= std::numeric_limits<double>::max())) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  double limit = moments.largest;
  if (clip > 0) {
    limit = std::min(limit, clip * std::sqrt(moments.sum_squares / static_cast<double>(elements)));
  }
  return CeilCoarse(static_cast<float>(limit));
}

// `unit` is limit * kDrawUnit.
PS_HD inline bool IsDrawn(uint32_t word, float unit, float magnitude) {
  return static_cast<float>(word >> 8) * unit < magnitude;
}

PS_HD inline float FittedTernary(const Drawn& drawn, float limit) {
  if (!(limit == limit) || !(drawn.sum <= std::numeric_limits<double>::max())) return limit;
  return CoarseMean(drawn.sum, drawn.count);
}

}  // namespace psgd
