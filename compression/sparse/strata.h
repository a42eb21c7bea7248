// Draws one random element from each of the k strata of a slice, for randomk. Sender and
// receiver draw the same elements, so indices do not travel.
//
// Stratum j of k has the elements floor(j n / k) to floor((j + 1) n / k) - 1. Its drawn element is
// the first plus floor(word * length / 2^32), where word is word j % 4 of Philox(key, j / 4, step).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "common/philox.h"

namespace psgd {

struct Stratum {
  uint64_t begin = 0;
  uint32_t length = 0;
};

// Returns stratum j of `count`.
PS_HD inline Stratum StratumOf(uint32_t j, uint64_t elements, uint32_t count) {
  const uint64_t begin = j * elements / count;
  return {begin, static_cast<uint32_t>((j + uint64_t{1}) * elements / count - begin)};
}

// Returns the stratum's element that `word` draws.
PS_HD inline uint32_t DrawFrom(const Stratum& stratum, uint32_t word) {
  return static_cast<uint32_t>(stratum.begin + ((uint64_t{word} * stratum.length) >> 32));
}

// The value that stands for a stratum if only its drawn element is sent; finite if `value` is.
PS_HD inline float ScaledToStratum(float value, uint32_t length) {
  constexpr float kMost = std::numeric_limits<float>::max();
  if (!(value >= -kMost && value <= kMost)) return value;
  return std::clamp(value * static_cast<float>(length), -kMost, kMost);
}

// Draws the elements in order. REQUIRES: 0 < count <= elements.
class Strata {
 public:
  Strata(uint32_t elements, uint32_t count, PhiloxKey key, uint64_t step)
      : elements_(elements), count_(count), key_(key), step_(step) {}

  bool done() const { return next_ == count_; }
  // Returns the index drawn from the next stratum; indices ascend. REQUIRES: !done().
  uint32_t Next() {
    if (next_ % 4 == 0) block_ = Philox(key_, next_ / 4, step_);
    stratum_ = StratumOf(next_, elements_, count_);
    return DrawFrom(stratum_, block_.word[next_++ % 4]);
  }
  // Length of the stratum of the last index.
  uint32_t length() const { return stratum_.length; }

 private:
  const uint64_t elements_;
  const uint32_t count_;
  const PhiloxKey key_;
  const uint64_t step_;
  PhiloxBlock block_{};
  uint32_t next_ = 0;
  Stratum stratum_;
};

}  // namespace psgd
