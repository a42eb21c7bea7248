// The fixed order of floating-point sums. Element i of a span is added to lane i % 16, lanes are
// folded from the first to the last. So any vector width that divides 16 gives the same bits.
#pragma once

#include <cstddef>

namespace psgd {

inline constexpr size_t kLanes = 16;

template <typename T>
struct Lanes {
  T value[kLanes] = {};

  double Sum() const {
    double sum = 0;
    for (T v : value) sum += v;
    return sum;
  }
  T Largest() const {
    T largest = value[0];
    for (T v : value) largest = v > largest ? v : largest;
    return largest;
  }
};

}  // namespace psgd
