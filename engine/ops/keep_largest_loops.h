// KeepLargest of one row, shared by all backends in host memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>

namespace psgd {

// `scratch` has room for the row. REQUIRES: 0 < count < columns. y may be x.
template <typename T>
void KeepLargestOfRow(const T* x, int64_t columns, int64_t count, T* scratch, T* y) {
  const auto magnitude = [](T value) {
    return std::isnan(value) ? std::numeric_limits<T>::infinity() : std::fabs(value);
  };
  std::transform(x, x + columns, scratch, magnitude);
  T* const least = scratch + count - 1;
  std::nth_element(scratch, least, scratch + columns, std::greater<T>());
  const T bound = *least;
  int64_t equal = count - std::count_if(scratch, least, [&](T m) { return m > bound; });
  for (int64_t i = 0; i < columns; ++i) {
    const T m = magnitude(x[i]);
    const bool kept = m > bound || (m == bound && equal-- > 0);
    y[i] = kept ? x[i] : T{0};
  }
}

}  // namespace psgd
