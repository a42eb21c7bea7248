// How large the values of a payload are.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "compression/payload_bytes.h"

namespace psgd {

// Returns the largest magnitude of `count` floats, 0 if there are none. Bits order magnitudes;
// infinities and NaN are above all others.
inline float LargestMagnitude(const std::byte* floats, size_t count) {
  int32_t largest = 0;  // signed: every CPU compares signed numbers in vectors
  for (size_t i = 0; i < count; ++i) {
    largest = std::max(largest, LoadField<int32_t>(floats + i * sizeof(float)) & 0x7FFFFFFF);
  }
  return std::bit_cast<float>(largest);
}

}  // namespace psgd
