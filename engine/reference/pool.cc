#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/reference/compute.h"

namespace psgd::reference {
namespace {

// Calls visit(index of y, index of x) for every element of every window, in row-major order.
template <typename Visit>
void ForEachPair(const Window& win, const Shape& x, const Shape& y, Visit visit) {
  for (int64_t image = 0; image < y[0] * y[1]; ++image) {
    for (int64_t i = 0; i < y[2]; ++i) {
      for (int64_t j = 0; j < y[3]; ++j) {
        for (int u = 0; u < win.kernel.height; ++u) {
          for (int v = 0; v < win.kernel.width; ++v) {
            const int64_t row = i * win.stride.height + u - win.pad.height;
            const int64_t column = j * win.stride.width + v - win.pad.width;
            if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) continue;
            visit((image * y[2] + i) * y[3] + j, (image * x[2] + row) * x[3] + column);
          }
        }
      }
    }
  }
}

double Area(const Window& window) { return double{1} * window.kernel.height * window.kernel.width; }

}  // namespace

template <typename T>
void Compute(const Pool& op, const Operands<T>& t) {
  const T* x = t.in(0);
  T* y = t.out(0);
  const int64_t count = ElementCount(t.out_shape(0));
  if (op.kind == Pool::Kind::kAverage) {
    std::vector<double> sums(count, 0.0);
    ForEachPair(op.window, t.in_shape(0), t.out_shape(0),
                [&](int64_t yi, int64_t xi) { sums[yi] += x[xi]; });
    for (int64_t i = 0; i < count; ++i) y[i] = static_cast<T>(sums[i] / Area(op.window));
    return;
  }
  int64_t* where = t.template out_as<int64_t>(1);
  std::fill_n(where, count, -1);
  ForEachPair(op.window, t.in_shape(0), t.out_shape(0), [&](int64_t yi, int64_t xi) {
    if (where[yi] >= 0 && !(x[xi] > y[yi]) && !std::isnan(x[xi])) return;  // NaN is the largest
    where[yi] = xi;
    y[yi] = x[xi];
  });
}

template <typename T>
void Compute(const PoolBackward& op, const Operands<T>& t) {
  const T* dy = t.in(0);
  std::vector<double> sums(ElementCount(t.out_shape(0)), 0.0);
  if (op.forward.kind == Pool::Kind::kAverage) {
    ForEachPair(op.forward.window, t.out_shape(0), t.in_shape(0),
                [&](int64_t yi, int64_t xi) { sums[xi] += dy[yi] / Area(op.forward.window); });
  } else {
    const int64_t* where = t.template in_as<int64_t>(1);
    for (int64_t i = 0; i < ElementCount(t.in_shape(0)); ++i) sums[where[i]] += dy[i];
  }
  std::transform(sums.begin(), sums.end(), t.out(0), [](double s) { return static_cast<T>(s); });
}

PSGD_REFERENCE_OP(Pool);
PSGD_REFERENCE_OP(PoolBackward);

}  // namespace psgd::reference
