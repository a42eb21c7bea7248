// What powersgd and its twin on a device decide by single numbers. No Abseil: nvcc reads this.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "common/host_device.h"

namespace psgd {

// Returns the factor that makes a column of that norm a unit vector. `before` is the column's norm
// before the parts along other columns were taken off.
PS_HD inline double InverseNorm(double norm, double before) {
  constexpr double kLeastShare = 1e-6;
  return norm > kLeastShare * before ? 1 / norm : 0;
}

// Whether no sum of `rank` products of elements of two matrices overflows, given the bits of their
// largest magnitudes. Bits of infinities and NaN are above all others.
PS_HD inline bool SumsAreFinite(uint32_t left, uint32_t right, uint32_t rank) {
  constexpr float kMost = std::numeric_limits<float>::max();
  const double largest = static_cast<double>(std::bit_cast<float>(left)) *
                         static_cast<double>(std::bit_cast<float>(right)) * rank;
  return largest < 0.5 * static_cast<double>(kMost);
}

// The Philox stream for column k of the right matrix in that step.
PS_HD inline uint64_t ColumnStream(uint64_t step, uint32_t k) {
  return step + (static_cast<uint64_t>(k + 1) << 48);
}

}  // namespace psgd
