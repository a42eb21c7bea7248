#include <algorithm>
#include <vector>

#include "engine/reference/compute.h"

namespace psgd::reference {
namespace {

// Calls visit(index of y, index of x, index of w) for every product of the formula.
template <typename Visit>
void ForEachProduct(const Conv2d& op, const Shape& x, const Shape& w, const Shape& y, Visit visit) {
  const Window& win = op.window;
  const int64_t outputs_a_group = w[0] / op.groups;
  for (int64_t n = 0; n < y[0]; ++n) {
    for (int64_t o = 0; o < y[1]; ++o) {
      for (int64_t i = 0; i < y[2]; ++i) {
        for (int64_t j = 0; j < y[3]; ++j) {
          const int64_t y_index = ((n * y[1] + o) * y[2] + i) * y[3] + j;
          for (int64_t c = 0; c < w[1]; ++c) {
            const int64_t x_channel = o / outputs_a_group * w[1] + c;
            for (int64_t u = 0; u < w[2]; ++u) {
              const int64_t row = i * win.stride.height + u * win.dilation.height - win.pad.height;
              if (row < 0 || row >= x[2]) continue;
              for (int64_t v = 0; v < w[3]; ++v) {
                const int64_t column =
                    j * win.stride.width + v * win.dilation.width - win.pad.width;
                if (column < 0 || column >= x[3]) continue;
                visit(y_index, ((n * x[1] + x_channel) * x[2] + row) * x[3] + column,
                      ((o * w[1] + c) * w[2] + u) * w[3] + v);
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace

template <typename T>
void Compute(const Conv2d& op, const Operands<T>& t) {
  const Shape& y_shape = t.out_shape(0);
  const T *x = t.in(0), *w = t.in(1);
  std::vector<double> sums(ElementCount(y_shape), 0.0);
  ForEachProduct(op, t.in_shape(0), t.in_shape(1), y_shape,
                 [&](int64_t yi, int64_t xi, int64_t wi) { sums[yi] += double{x[xi]} * w[wi]; });
  const int64_t area = y_shape[2] * y_shape[3];
  for (size_t i = 0; i < sums.size(); ++i) {
    if (t.inputs() > 2) sums[i] += t.in(2)[i / area % y_shape[1]];
    t.out(0)[i] = static_cast<T>(sums[i]);
  }
}

template <typename T>
void Compute(const Conv2dBackwardData& op, const Operands<T>& t) {
  const T *w = t.in(0), *dy = t.in(1);
  std::vector<double> sums(ElementCount(t.out_shape(0)), 0.0);
  ForEachProduct(op.forward, t.out_shape(0), t.in_shape(0), t.in_shape(1),
                 [&](int64_t yi, int64_t xi, int64_t wi) { sums[xi] += double{dy[yi]} * w[wi]; });
  std::transform(sums.begin(), sums.end(), t.out(0), [](double s) { return static_cast<T>(s); });
}

template <typename T>
void Compute(const Conv2dBackwardWeights& op, const Operands<T>& t) {
  const T *x = t.in(0), *dy = t.in(1);
  const Shape& y_shape = t.in_shape(1);
  std::vector<double> sums(ElementCount(t.out_shape(0)), 0.0);
  ForEachProduct(op.forward, t.in_shape(0), t.out_shape(0), y_shape,
                 [&](int64_t yi, int64_t xi, int64_t wi) { sums[wi] += double{dy[yi]} * x[xi]; });
  std::transform(sums.begin(), sums.end(), t.out(0), [](double s) { return static_cast<T>(s); });
  if (t.outputs() < 2) return;
  const int64_t area = y_shape[2] * y_shape[3];
  std::vector<double> bias(y_shape[1], 0.0);
  for (int64_t i = 0; i < ElementCount(y_shape); ++i) bias[i / area % y_shape[1]] += dy[i];
  std::transform(bias.begin(), bias.end(), t.out(1), [](double s) { return static_cast<T>(s); });
}

PSGD_REFERENCE_OP(Conv2d);
PSGD_REFERENCE_OP(Conv2dBackwardData);
PSGD_REFERENCE_OP(Conv2dBackwardWeights);

}  // namespace psgd::reference
