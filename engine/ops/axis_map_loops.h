// The formula of axis_map.h on the host, for all backends in host memory.
#pragma once

#include <algorithm>

#include "engine/graph/shape.h"
#include "engine/ops/axis_map.h"

namespace psgd {

// The elements before an axis and behind it, in row-major order.
struct AxisPlace {
  int64_t outer = 1, inner = 1;
};
inline AxisPlace PlaceOfAxis(const Shape& shape, int axis) {
  AxisPlace place;
  for (int i = 0; i < static_cast<int>(shape.size()); ++i) {
    if (i != axis) (i < axis ? place.outer : place.inner) *= shape[i];
  }
  return place;
}

// Writes row `row` of the result for one of the outer elements. Sums are in double, a stretch of
// the inner elements at a time.
template <typename T>
void MapRow(const AxisMatrix& matrix, int64_t row, int64_t inner, const T* x, T* y) {
  constexpr int64_t kStretch = 64;
  double sums[kStretch];
  const int32_t first = matrix.first[row], end = matrix.first[row + 1];
  if (inner == 1) {
    double sum = 0;
    for (int32_t k = first; k < end; ++k) sum += double{matrix.weight[k]} * x[matrix.source[k]];
    *y = static_cast<T>(sum);
    return;
  }
  for (int64_t begin = 0; begin < inner; begin += kStretch) {
    const int64_t count = std::min(kStretch, inner - begin);
    std::fill_n(sums, count, 0.0);
    for (int32_t k = first; k < end; ++k) {
      const T* from = x + matrix.source[k] * inner + begin;
      const double weight = matrix.weight[k];
      for (int64_t i = 0; i < count; ++i) sums[i] += weight * from[i];
    }
    for (int64_t i = 0; i < count; ++i) y[begin + i] = static_cast<T>(sums[i]);
  }
}

}  // namespace psgd
