// How natural rounds an element; see natural.h. No Abseil: nvcc reads this.
#pragma once

#include <bit>
#include <cstdint>

#include "common/host_device.h"

namespace psgd {

inline constexpr uint32_t kNaturalFraction = 0x7FFFFFu;
inline constexpr uint32_t kLargestNaturalExponent = 254;
// The exponent of an element that is not finite, so that a shard refuses it.
inline constexpr uint32_t kNaturalNotFinite = 255;

// `word` is the element's random number.
PS_HD inline uint8_t NaturalExponent(float value, uint32_t word) {
  const uint32_t magnitude = std::bit_cast<uint32_t>(value) & 0x7FFFFFFFu;
  const uint32_t rounded = (magnitude + (word & kNaturalFraction)) >> 23;
  if (magnitude >= 0x7F800000u) return kNaturalNotFinite;
  return static_cast<uint8_t>(rounded < kLargestNaturalExponent ? rounded
                                                                : kLargestNaturalExponent);
}

PS_HD inline float NaturalValue(uint8_t exponent, bool negative) {
  return std::bit_cast<float>(uint32_t{exponent} << 23 | static_cast<uint32_t>(negative) << 31);
}

}  // namespace psgd
