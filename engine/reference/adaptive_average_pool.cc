#include <algorithm>

#include "engine/reference/compute.h"

namespace psgd::reference {
namespace {

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

}  // namespace

template <typename T>
void Compute(const AdaptiveAveragePool&, const Operands<T>& t) {
  const T* x = t.in(0);
  T* y = t.out(0);
  std::fill_n(y, ElementCount(t.out_shape(0)), T{0});
  ForEachAdaptivePair(t.in_shape(0), t.out_shape(0), [&](int64_t yi, int64_t xi, int64_t area) {
    y[yi] += x[xi] / static_cast<T>(area);
  });
}

template <typename T>
void Compute(const AdaptiveAveragePoolBackward&, const Operands<T>& t) {
  const T* dy = t.in(0);
  T* dx = t.out(0);
  std::fill_n(dx, ElementCount(t.out_shape(0)), T{0});
  ForEachAdaptivePair(t.out_shape(0), t.in_shape(0), [&](int64_t yi, int64_t xi, int64_t area) {
    dx[xi] += dy[yi] / static_cast<T>(area);
  });
}

PSGD_REFERENCE_OP(AdaptiveAveragePool);
PSGD_REFERENCE_OP(AdaptiveAveragePoolBackward);

}  // namespace psgd::reference
