// Exact selection of the elements of largest magnitude, without sorting. Magnitudes of floats order
// like their bits without the sign, so selection is a radix search over 31-bit numbers.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace psgd {

inline uint32_t MagnitudeBits(float value) { return std::bit_cast<uint32_t>(value) & 0x7FFFFFFFu; }

// Keeps every magnitude above `least` and the first `ties` of those equal to it.
struct Cut {
  uint32_t least = 0;
  size_t ties = 0;
};

// The cut that keeps exactly `keep` of the values. REQUIRES: 0 < keep <= values.size().
Cut FindCut(std::span<const float> values, size_t keep, std::vector<uint32_t>* scratch);

// Magnitude bits that a little more than `keep` elements of a + b (b may be empty) probably reach,
// from a sample. Only a guess: the caller counts. 0 when there is nothing to tell them apart.
uint32_t GuessLeast(std::span<const float> a, std::span<const float> b, size_t keep,
                    std::vector<uint32_t>* scratch);

}  // namespace psgd
