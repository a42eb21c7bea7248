// Shared by int8 and qsgd: elements are whole multiples (levels) of a unit, one for each block.
//
// Steps, for each block of c = gradient (+ residual), levels -s to s:
//   1. unit = max |c| / s, or |c|_2 / s for the L2 norm, rounded up to 8 significant bits
//      (coarse.h); 0 if that is below 2^-100
//   2. level[i] = floor(|c[i]| / unit + u), at most s, with the sign of c[i]; u is uniform in
//      [0, 1) (RandomPart), or 1/2 to round to nearest
//   3. decoded[i] = level[i] * unit;  residual[i] = c[i] - decoded[i]
// With random u the decoded block is an unbiased estimate of c.
// No Abseil: nvcc reads this.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "common/host_device.h"
#include "common/philox.h"
#include "compression/coarse.h"

namespace psgd {

inline constexpr uint32_t kQuantizedBlockUnit = 64;
inline constexpr uint32_t kLargestQuantizedBlock = 1u << 20;
inline constexpr uint32_t kLeastQuantizedBits = 2;
inline constexpr uint32_t kMostQuantizedBits = 8;

inline constexpr size_t kCodeGroup = 16;  // elements whose codes share words

PS_HD constexpr int LargestLevel(uint32_t bits) { return (1 << (bits - 1)) - 1; }

// `size` is the block's norm, `top` its largest level. Returns NaN if the values are not finite, so
// that a shard refuses what the caller let through.
PS_HD inline float QuantizedUnit(double size, float top) {
  constexpr float kMost = std::numeric_limits<float>::max();
  constexpr float kLeast = 0x1p-100f;
  if (!(size <= std::numeric_limits<double>::max())) return std::numeric_limits<float>::quiet_NaN();
  const float exact = static_cast<float>(std::min(size / top, static_cast<double>(kMost)));
  if (exact < kLeast) return 0;
  const float unit = CeilCoarse(exact);
  if (unit * top <= kMost) return unit;
  // Near the end of the range the next lower unit is taken, which cuts the largest elements.
  return std::bit_cast<float>(std::bit_cast<uint32_t>(kMost / top) & 0xFFFF0000u);
}

PS_HD inline float InverseUnit(float unit) { return unit > 0 ? 1 / unit : 0; }

// `part` is added before the fraction is cut off: a random number below 1, or 1/2.
PS_HD inline int8_t LevelOf(float value, float inverse, float part, float top) {
  const int level = static_cast<int>(std::min(std::fabs(value) * inverse + part, top));
  return static_cast<int8_t>(std::signbit(value) ? -level : level);
}

// Which random bits round which element. An element takes 16 bits, so a Philox word serves two.
// Elements go in groups of 32. The first 16 take the low halves of the group's 16 words, the others
// the high halves. Word w is word w % 4 of Philox(key, w / 4, step).
inline constexpr size_t kRandomGroup = 32;
inline constexpr float kRandomUnit = 1.0f / 65536.0f;

PS_HD inline bool IsHighPart(size_t element) { return element % kRandomGroup >= kRandomGroup / 2; }

PS_HD inline uint32_t RandomWordOf(uint32_t element) {
  constexpr uint32_t kHalf = kRandomGroup / 2;
  return element / kRandomGroup * kHalf + element % kHalf;
}

// Uniform in [0, 1), on a grid of 2^-16. So adding it to a number of at most 127 never rounds up to
// a wrong whole number.
PS_HD inline float RandomPartOf(uint32_t word, bool high) {
  return static_cast<float>(high ? word >> 16 : word & 0xFFFFu) * kRandomUnit;
}

inline float RandomPart(PhiloxKey key, uint64_t step, uint32_t element) {
  const uint32_t word = RandomWordOf(element);
  return RandomPartOf(Philox(key, word / 4, step).word[word % 4], IsHighPart(element));
}

}  // namespace psgd
