// The fixed order of floating-point sums. Element i of a span is added to lane i % 16, and lanes
// are folded from the first to the last. So any vector width that divides 16 gives the same bits. A
// sum over a whole slice goes by stretches: each is summed in lanes, and the stretches' sums are
// added in order. So the threads of a device can sum different stretches.
#pragma once

#include <cstddef>

#include "common/host_device.h"

namespace psgd {

inline constexpr size_t kLanes = 16;
inline constexpr size_t kSignStretch = 1024;  // for sums of magnitudes in lanes of fp32
inline constexpr size_t kSumStretch = 5120;   // a multiple of kTernaryGroup

template <typename T>
struct Lanes {
  T value[kLanes] = {};

  PS_HD double Sum() const {
    double sum = 0;
    for (T v : value) sum += v;
    return sum;
  }
  PS_HD T Largest() const {
    T largest = value[0];
    for (T v : value) largest = v > largest ? v : largest;
    return largest;
  }
};

}  // namespace psgd
