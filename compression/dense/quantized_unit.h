// The unit of a block, and the level of an element; see quantized.h. No Abseil: nvcc reads this.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "common/host_device.h"
#include "compression/coarse.h"

namespace psgd {

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

}  // namespace psgd
