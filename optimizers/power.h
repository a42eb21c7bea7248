// Powers by multiplications and square roots: the C library's pow may differ in the last bit
// between CPUs.
#pragma once

#include <cmath>
#include <cstdint>

namespace psgd {

inline double Power(double base, uint64_t exponent) {
  double result = 1;
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1) result *= base;
    base *= base;
  }
  return result;
}

// REQUIRES: `base` is from 0 to 1, and `exponent` from 0 on.
inline double PowerOfShare(double base, double exponent) {
  constexpr double kMost = 1e6;  // more changes nothing: the result is 0, or `base` is close to 1
  exponent = std::fmin(exponent, kMost);
  const double whole = std::floor(exponent);
  double result = Power(base, static_cast<uint64_t>(whole));
  // The binary digits of the rest, each the square root of the one before.
  double root = base;
  for (double rest = exponent - whole; rest > 0; rest -= std::floor(rest)) {
    root = std::sqrt(root);
    rest *= 2;
    if (rest >= 1) result *= root;
  }
  return result;
}

}  // namespace psgd
