// The mean and deviation of numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>

namespace psgd {

// Readers refuse larger numbers, so sums of squares stay finite.
inline constexpr double kLargestNumber = 1e30;

struct NumberScale {
  double mean = 0;
  double deviation = 1;  // above 0; 1 if the numbers do not vary

  float Of(double value) const {
    return static_cast<float>(
        std::clamp((value - mean) / deviation, -kLargestNumber, kLargestNumber));
  }
};

// Of value(0) to value(count - 1), without those that are NaN; nothing if all are.
template <typename Value>
std::optional<NumberScale> MeasureScale(size_t count, Value value) {
  double found = 0, sum = 0, squares = 0;
  for (size_t i = 0; i < count; ++i) {
    if (std::isnan(value(i))) continue;
    found += 1;
    sum += value(i);
  }
  if (found == 0) return std::nullopt;
  const double mean = sum / found;
  for (size_t i = 0; i < count; ++i) {
    if (!std::isnan(value(i))) squares += (value(i) - mean) * (value(i) - mean);
  }
  return NumberScale{mean, squares > 0 ? std::sqrt(squares / found) : 1};
}

}  // namespace psgd
