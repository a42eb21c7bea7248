// The mean and deviation of numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>

namespace psgd {

// Readers refuse larger numbers, so sums of squares stay finite.
inline constexpr double kLargestNumber = 1e30;

// Whole numbers below it are exact.
inline constexpr double kLargestExact = 1LL << 53;

struct NumberScale {
  double mean = 0;
  double deviation = 1;  // above 0; 1 if the numbers do not vary by more than rounding

  float Of(double value) const {
    return static_cast<float>(
        std::clamp((value - mean) / deviation, -kLargestNumber, kLargestNumber));
  }
};

// The scale of value(0) to value(count - 1), without those that are NaN. Nullopt: all are NaN.
template <typename Value>
std::optional<NumberScale> MeasureScale(size_t count, Value value) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double found = 0, sum = 0, squares = 0, least = kInfinity, most = -kInfinity;
  for (size_t i = 0; i < count; ++i) {
    if (std::isnan(value(i))) continue;
    found += 1;
    sum += value(i);
    least = std::min<double>(least, value(i));
    most = std::max<double>(most, value(i));
  }
  if (found == 0) return std::nullopt;
  // The mean of equal numbers is rounded, and a deviation of 1e-15 would make the next other number
  // 1e12.
  constexpr double kRounding = 1e-14;
  if (most - least <= kRounding * std::max(std::abs(least), std::abs(most))) {
    return NumberScale{least, 1};
  }
  const double mean = sum / found;
  for (size_t i = 0; i < count; ++i) {
    if (!std::isnan(value(i))) squares += (value(i) - mean) * (value(i) - mean);
  }
  return NumberScale{mean, squares > 0 ? std::sqrt(squares / found) : 1};
}

}  // namespace psgd
