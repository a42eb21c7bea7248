// Whole powers by squaring: the C library's pow may differ in the last bit between CPUs.
#pragma once

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

}  // namespace psgd
