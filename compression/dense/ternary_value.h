// What ternary measures in a slice, and how it draws; see ternary.h. No Abseil: nvcc reads this.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
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

// How base-3 digits lie in bytes. Groups of 320 elements take 64 bytes each. Element e of a group
// of B bytes is digit e / B of byte e % B; the first digit is worth 1, the last 81. So a byte never
// exceeds 242, and whole vectors pack and unpack digits. The last group has ceil(elements / 5)
// bytes; the digits beyond its elements are 1. A digit is 0 for -1, 1 for 0, 2 for +1.
inline constexpr size_t kTernaryDigits = 5;
inline constexpr size_t kTernaryBytes = 64;
inline constexpr size_t kTernaryGroup = kTernaryBytes * kTernaryDigits;
inline constexpr unsigned kLargestTernaryByte = 242;

// A draw compares |c| with a random 24-bit whole number times limit * kDrawUnit.
inline constexpr float kDrawUnit = 1.0f / 16777216.0f;

// Bytes of a group of that many elements, at most kTernaryGroup.
PS_HD constexpr size_t TernaryBytes(size_t elements) {
  return (elements + kTernaryDigits - 1) / kTernaryDigits;
}

// Bytes of any number of elements.
PS_HD constexpr size_t TernaryDigitBytes(size_t elements) {
  return elements / kTernaryGroup * kTernaryBytes + TernaryBytes(elements % kTernaryGroup);
}

}  // namespace psgd
