// The median.
#pragma once

#include <algorithm>
#include <vector>

namespace psgd {

// Returns the middle value; with an even count, the lower middle value. REQUIRES: `values` is not
// empty.
template <typename T>
T Median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace psgd
