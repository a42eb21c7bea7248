// One IEEE binary16 number, by integer arithmetic.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "common/philox.h"

namespace psgd {

inline constexpr size_t kHalfBytes = 2;
inline constexpr float kLargestHalf = 65504.0f;

// Rounds to nearest, ties to even. Saturates beyond the largest half. NaN stays NaN.
PS_HD inline uint16_t HalfFromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u);
  if (magnitude >= 0x477FE000u) return static_cast<uint16_t>(sign | 0x7BFFu);
  if (magnitude < 0x38800000u) {
    // A subnormal half counts units of 2^-24, the last place of 0.5f, so the sum rounds to units.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000u));
  }
  const uint32_t tie_to_even = (magnitude >> 13) & 1u;
  const uint32_t rebiased = magnitude - ((127u - 15u) << 23);
  return static_cast<uint16_t>(sign | ((rebiased + 0xFFFu + tie_to_even) >> 13));
}

// The conversion is exact.
PS_HD inline float FloatFromHalf(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7FFFu;
  uint32_t bits;
  if (magnitude >= 0x7C00u) {
    bits = (magnitude << 13) + ((255u - 31u) << 23);
  } else if (magnitude >= 0x0400u) {
    bits = (magnitude << 13) + ((127u - 15u) << 23);
  } else {
    bits = std::bit_cast<uint32_t>(static_cast<float>(magnitude) * (1.0f / 16777216.0f));
  }
  return std::bit_cast<float>(sign | bits);
}

struct HalfFormat {
  static constexpr uint16_t kExponent = 0x7C00;
  PS_HD static uint16_t From(float value) { return HalfFromFloat(value); }
  PS_HD static float To(uint16_t half) { return FloatFromHalf(half); }
};

}  // namespace psgd
