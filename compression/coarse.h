// Reconstruction values are rounded to 8 significant bits before they are used or sent. A
// difference "element - value" then stays on a grid that fp32 holds exactly for gradients of modest
// range, so error feedback conserves sums of integer-valued gradients to the bit, step after step.
// The rounding error (a part in 256) goes to the residual. A rounded value is the upper half of a
// float, and travels as that half.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "common/host_device.h"

namespace psgd {

inline constexpr uint32_t kLargestCoarse = 0x7F7F0000u;  // bits of the largest finite rounded value

// Rounds to nearest. A finite value stays finite. REQUIRES: `value` is finite.
PS_HD inline float RoundCoarse(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits & 0x80000000u;
  const uint32_t magnitude = ((bits & 0x7FFFFFFFu) + 0x8000u) & 0xFFFF0000u;
  return std::bit_cast<float>(sign | (magnitude < kLargestCoarse ? magnitude : kLargestCoarse));
}

// Rounds a non-negative value up; at most to the largest rounded value.
PS_HD inline float CeilCoarse(float value) {
  const uint32_t magnitude = (std::bit_cast<uint32_t>(value) + 0xFFFFu) & 0xFFFF0000u;
  const uint32_t largest = kLargestCoarse;  // device code has no address of the constant itself
  return std::bit_cast<float>(magnitude < largest ? magnitude : largest);
}

// Returns the rounded mean of `count` numbers, 0 if there are none. Not finite if `sum` is not.
PS_HD inline float CoarseMean(double sum, uint64_t count) {
  if (count == 0) return 0;
  const float mean = static_cast<float>(sum / static_cast<double>(count));
  constexpr float kMost = std::numeric_limits<float>::max();
  return mean >= -kMost && mean <= kMost ? RoundCoarse(mean) : mean;
}

// Converts a float that is rounded, or not finite, to its upper half, and back.
PS_HD inline uint16_t CoarseBits(float value) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
}
PS_HD inline float FromCoarseBits(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

}  // namespace psgd
