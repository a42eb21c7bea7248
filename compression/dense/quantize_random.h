// Which random bits round which element. An element takes 16 bits, so a Philox word serves two.
// Elements go in groups of 32. The first 16 take the low halves of the group's 16 words, the others
// the high halves. Word w is word w % 4 of Philox(key, w / 4, step).
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/philox.h"

namespace psgd {

inline constexpr size_t kRandomGroup = 32;
inline constexpr float kRandomUnit = 1.0f / 65536.0f;

PS_HD inline bool IsHighPart(size_t element) { return element % kRandomGroup >= kRandomGroup / 2; }

PS_HD inline uint32_t RandomWordOf(uint32_t element) {
  constexpr uint32_t kHalf = kRandomGroup / 2;
  return element / kRandomGroup * kHalf + element % kHalf;
}

// Uniform in [0, 1), on a grid of 2^-16. So adding it to a number of at most 127 never rounds up to
// a wrong whole number.
PS_HD inline float RandomPartOf(uint32_t word, bool high) {
  return static_cast<float>(high ? word >> 16 : word & 0xFFFFu) * kRandomUnit;
}

inline float RandomPart(PhiloxKey key, uint64_t step, uint32_t element) {
  const uint32_t word = RandomWordOf(element);
  return RandomPartOf(Philox(key, word / 4, step).word[word % 4], IsHighPart(element));
}

}  // namespace psgd
