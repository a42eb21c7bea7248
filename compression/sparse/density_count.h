// The number of elements that a density stands for. No Abseil: nvcc reads this.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace psgd {

// max(1, round(density * elements)), at most `elements`.
inline size_t CountAt(double density, size_t elements) {
  const double count = std::max(1.0, std::round(density * static_cast<double>(elements)));
  return std::min(elements, static_cast<size_t>(count));
}

}  // namespace psgd
