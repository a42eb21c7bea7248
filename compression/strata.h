// One random element of each of k stretches that a slice is cut into: what randomk sends. Sender
// and receiver draw the same ones, so they need not travel.
//
// Stretch j of k has the elements floor(j n / k) to floor((j + 1) n / k) - 1, and its element is
// the first plus floor(word * length / 2^32), where word is word j % 4 of Philox(key, j / 4, step).
#pragma once

#include <cstdint>

#include "common/philox.h"

namespace psgd {

// REQUIRES: 0 < count <= elements.
class Strata {
 public:
  Strata(uint32_t elements, uint32_t count, PhiloxKey key, uint64_t step)
      : elements_(elements), count_(count), key_(key), step_(step) {}

  bool done() const { return next_ == count_; }
  // The index that the next stretch gives; ascending. REQUIRES: !done().
  uint32_t Next() {
    if (next_ % 4 == 0) block_ = Philox(key_, next_ / 4, step_);
    const uint64_t word = block_.word[next_ % 4];
    const uint64_t begin = end_;
    ++next_;
    end_ = static_cast<uint64_t>(next_) * elements_ / count_;
    length_ = static_cast<uint32_t>(end_ - begin);
    return static_cast<uint32_t>(begin + ((word * length_) >> 32));
  }
  // Of the stretch of the last index.
  uint32_t length() const { return length_; }

 private:
  const uint64_t elements_;
  const uint32_t count_;
  const PhiloxKey key_;
  const uint64_t step_;
  PhiloxBlock block_{};
  uint32_t next_ = 0;
  uint64_t end_ = 0;
  uint32_t length_ = 0;
};

}  // namespace psgd
