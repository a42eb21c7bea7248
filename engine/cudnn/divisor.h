// Division by a number that stays the same, without the device's slow 64-bit division.
#pragma once

#include <cstdint>

#include "common/host_device.h"

namespace psgd::cudnn {

// Divides numbers from 0 up. For those below 2^31 it multiplies and shifts (Granlund and
// Montgomery, 1994); larger ones take the division of 64 bits.
class Divisor {
 public:
  // REQUIRES: divisor > 0.
  explicit constexpr Divisor(int64_t divisor = 1) : divisor_(divisor) {
    // A number below 2^31 has quotient 0 for a larger divisor, and so it has for multiplier 0.
    if (divisor > kMost) return;
    while (int64_t{1} << (shift_ - kBits) < divisor) ++shift_;
    const auto by = static_cast<uint64_t>(divisor);
    multiplier_ = static_cast<uint32_t>(((uint64_t{1} << shift_) + by - 1) / by);
  }

  PS_HD constexpr int64_t value() const { return divisor_; }

  PS_HD constexpr int64_t Quotient(int64_t n) const {
    if (n > kMost) return Slowly(n, divisor_);
    const uint64_t product = uint64_t{static_cast<uint32_t>(n)} * multiplier_;
    return static_cast<int64_t>(product >> shift_);
  }

  // Replaces *n by its quotient and returns the remainder.
  PS_HD constexpr int64_t Split(int64_t* n) const {
    const int64_t quotient = Quotient(*n), rest = *n - quotient * divisor_;
    *n = quotient;
    return rest;
  }

 private:
  // Not inline, because the division is long and hardly ever runs.
  [[gnu::noinline]] PS_HD static constexpr int64_t Slowly(int64_t n, int64_t by) { return n / by; }

  static constexpr int kBits = 31;
  static constexpr int64_t kMost = INT32_MAX;

  int64_t divisor_;
  uint32_t multiplier_ = 0;
  int shift_ = kBits;
};

}  // namespace psgd::cudnn
