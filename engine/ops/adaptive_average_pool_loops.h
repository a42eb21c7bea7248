// Adaptive average pooling on the host, for all backends in host memory. No library has this op,
// and networks use it once, on small images.
#pragma once

#include <algorithm>

#include "engine/graph/shape.h"
#include "engine/ops/adaptive_average_pool.h"

namespace psgd {

// Calls visit(index of y, index of x, elements of the window) for every element of every window.
template <typename Visit>
void ForEachAdaptivePair(const Shape& x, const Shape& y, Visit visit) {
  for (int64_t image = 0; image < y[0] * y[1]; ++image) {
    for (int64_t i = 0; i < y[2]; ++i) {
      const int64_t top = AdaptiveBegin(i, x[2], y[2]), bottom = AdaptiveEnd(i, x[2], y[2]);
      for (int64_t j = 0; j < y[3]; ++j) {
        const int64_t left = AdaptiveBegin(j, x[3], y[3]), right = AdaptiveEnd(j, x[3], y[3]);
        const int64_t yi = (image * y[2] + i) * y[3] + j;
        const int64_t area = (bottom - top) * (right - left);
        for (int64_t u = top; u < bottom; ++u) {
          for (int64_t v = left; v < right; ++v) visit(yi, (image * x[2] + u) * x[3] + v, area);
        }
      }
    }
  }
}

// The formulas of adaptive_average_pool.h.
template <typename T>
void AdaptiveAveragePoolForward(const Shape& x_shape, const Shape& y_shape, const T* x, T* y) {
  std::fill_n(y, ElementCount(y_shape), T{0});
  ForEachAdaptivePair(x_shape, y_shape, [&](int64_t yi, int64_t xi, int64_t area) {
    y[yi] += x[xi] / static_cast<T>(area);
  });
}

template <typename T>
void AdaptiveAveragePoolGradient(const Shape& x_shape, const Shape& y_shape, const T* dy, T* dx) {
  std::fill_n(dx, ElementCount(x_shape), T{0});
  ForEachAdaptivePair(x_shape, y_shape, [&](int64_t yi, int64_t xi, int64_t area) {
    dx[xi] += dy[yi] / static_cast<T>(area);
  });
}

}  // namespace psgd
