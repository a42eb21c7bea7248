// The middle of some values.
#pragma once

#include <algorithm>
#include <vector>

namespace psgd {

// The middle value; of an even number the lower of the two. REQUIRES: there is one.
template <typename T>
T Median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace psgd
