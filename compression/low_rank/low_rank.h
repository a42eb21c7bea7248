// What powersgd and its twin on a device decide by single numbers. No Abseil: nvcc reads this.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "common/host_device.h"

namespace psgd {

// What a column of that norm is multiplied by; `before`: its norm before what depends on other
// columns was taken off.
PS_HD inline double InverseNorm(double norm, double before) {
  constexpr double kLeastShare = 1e-6;
  return norm > kLeastShare * before ? 1 / norm : 0;
}

// No sum of `rank` products of elements of two matrices can overflow, given the bits of their
// largest magnitudes; those of infinities and NaN are above all others.
PS_HD inline bool SumsAreFinite(uint32_t left, uint32_t right, uint32_t rank) {
  constexpr float kMost = std::numeric_limits<float>::max();
  const double largest = static_cast<double>(std::bit_cast<float>(left)) *
                         static_cast<double>(std::bit_cast<float>(right)) * rank;
  return largest < 0.5 * static_cast<double>(kMost);
}

// The stream that column k of the right matrix is drawn from in that step.
PS_HD inline uint64_t ColumnStream(uint64_t step, uint32_t k) {
  return step + (static_cast<uint64_t>(k + 1) << 48);
}

}  // namespace psgd
