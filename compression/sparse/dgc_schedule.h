// The options of dgc as they change from step to step; see dgc.h. No Abseil: nvcc reads this.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "common/host_device.h"

namespace psgd {

inline double WarmUpDensity(double density, uint64_t step, uint64_t warmup) {
  constexpr double kFirst = 0.25;
  if (step >= warmup) return density;
  const double part = static_cast<double>(step) / static_cast<double>(warmup);
  return std::pow(std::max(kFirst, density), 1 - part) * std::pow(density, part);
}

// Returns the factor that scales a gradient of that squared norm down to the limit; 1 if shorter.
PS_HD inline float ClippingScale(double squares, double limit) {
  const double norm = std::sqrt(squares);
  return norm > limit ? static_cast<float>(limit / norm) : 1.0f;
}

}  // namespace psgd
