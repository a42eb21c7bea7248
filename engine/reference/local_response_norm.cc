#include <algorithm>
#include <cmath>

#include "engine/reference/compute.h"

namespace psgd::reference {
namespace {

// Calls visit(index, index of the same pixel in another channel) for every channel of the window.
template <typename Visit>
void ForEachPair(int size, const Shape& x, Visit visit) {
  const int64_t area = x[2] * x[3], reach = size / 2;
  for (int64_t n = 0; n < x[0]; ++n) {
    for (int64_t c = 0; c < x[1]; ++c) {
      const int64_t last = std::min(x[1] - 1, c + reach);
      for (int64_t other = std::max<int64_t>(0, c - reach); other <= last; ++other) {
        for (int64_t i = 0; i < area; ++i) {
          visit((n * x[1] + c) * area + i, (n * x[1] + other) * area + i);
        }
      }
    }
  }
}

}  // namespace

template <typename T>
void Compute(const LocalResponseNorm& op, const Operands<T>& t) {
  const T* x = t.in(0);
  double* scale = t.template out_as<double>(1);
  const int64_t count = ElementCount(t.in_shape(0));
  const double share = double{op.alpha} / op.size;
  std::fill_n(scale, count, double{op.k});
  ForEachPair(op.size, t.in_shape(0),
              [&](int64_t i, int64_t other) { scale[i] += share * x[other] * x[other]; });
  for (int64_t i = 0; i < count; ++i) {
    t.out(0)[i] = static_cast<T>(x[i] * std::pow(scale[i], -double{op.beta}));
  }
}

template <typename T>
void Compute(const LocalResponseNormBackward& op, const Operands<T>& t) {
  const T *x = t.in(0), *dy = t.in(2);
  const double* scale = t.template in_as<double>(1);
  const double beta = op.forward.beta;
  const double share = 2 * double{op.forward.alpha} * beta / op.forward.size;
  std::vector<double> sums(ElementCount(t.in_shape(0)), 0.0);
  ForEachPair(op.forward.size, t.in_shape(0), [&](int64_t i, int64_t other) {
    sums[i] += dy[other] * x[other] * std::pow(scale[other], -beta - 1);
  });
  for (size_t i = 0; i < sums.size(); ++i) {
    t.out(0)[i] = static_cast<T>(dy[i] * std::pow(scale[i], -beta) - share * x[i] * sums[i]);
  }
}

PSGD_REFERENCE_OP(LocalResponseNorm);
PSGD_REFERENCE_OP(LocalResponseNormBackward);

}  // namespace psgd::reference
