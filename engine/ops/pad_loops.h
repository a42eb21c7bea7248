// Padding on the host, for all backends in host memory. It copies whole rows.
#pragma once

#include <algorithm>

#include "engine/ops/pad.h"

namespace psgd {

// The formula of pad.h.
template <typename T>
void PadForward(const Pad& op, const Shape& x_shape, const Shape& y_shape, const T* x, T* y) {
  std::fill_n(y, ElementCount(y_shape), static_cast<T>(op.value));
  const size_t rank = x_shape.size();
  const int64_t width = x_shape[rank - 1];
  for (int64_t row = 0; row < ElementCount(x_shape) / width; ++row, x += width) {
    int64_t rest = row, place = op.before[rank - 1], stride = y_shape[rank - 1];
    for (size_t axis = rank - 1; axis-- > 0;) {
      place += (rest % x_shape[axis] + op.before[axis]) * stride;
      rest /= x_shape[axis];
      stride *= y_shape[axis];
    }
    std::copy_n(x, width, y + place);
  }
}

}  // namespace psgd
