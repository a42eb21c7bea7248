// Norms of slices, for optimizers whose rate follows them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace psgd {

// A sum of squares in an order that does not depend on the length of vectors: element i of a slice
// goes to sum i % kSums. A square of a float is exact in double, so fused operations change
// nothing.
struct SquareSums {
  static constexpr size_t kSums = 16;
  double sums[kSums] = {};

  double Sum() const {
    double total = 0;
    for (const double sum : sums) total += sum;
    return total;
  }
  double Norm() const { return std::sqrt(Sum()); }
};

// The rate for an update, as a float. A tiny update has a rate beyond the largest float: infinity
// times an element that is 0 would be NaN.
inline float RateOf(double learning_rate, double ratio) {
  return static_cast<float>(
      std::min<double>(learning_rate * ratio, std::numeric_limits<float>::max()));
}

// trust * |weights| / |update|; 1 if one of the norms is 0.
inline double TrustRatio(double trust, const SquareSums& weights, const SquareSums& update) {
  const double above = weights.Norm(), below = update.Norm();
  return above > 0 && below > 0 ? trust * above / below : 1;
}

}  // namespace psgd
