// One bfloat16 number (the upper half of a float), by integer arithmetic.
#pragma once

#include <bit>
#include <cstdint>

#include "common/host_device.h"

namespace psgd {

inline constexpr uint32_t kLargestBrain = 0x7F7Fu;

// Rounds to nearest, ties to even. Saturates beyond the largest number. NaN stays NaN.
PS_HD inline uint16_t BrainFromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7FC0u);
  const uint32_t rounded = (magnitude + 0x7FFFu + ((magnitude >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>(sign | (rounded > kLargestBrain ? kLargestBrain : rounded));
}

// The conversion is exact.
PS_HD inline float FloatFromBrain(uint16_t brain) {
  return std::bit_cast<float>(static_cast<uint32_t>(brain) << 16);
}

struct BrainFormat {
  static constexpr uint16_t kExponent = 0x7F80;
  PS_HD static uint16_t From(float value) { return BrainFromFloat(value); }
  PS_HD static float To(uint16_t brain) { return FloatFromBrain(brain); }
};

}  // namespace psgd
