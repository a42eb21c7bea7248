#include <cmath>

#include "engine/reference/compute.h"

namespace psgd::reference {

template <typename T>
void Compute(const LayerNorm& op, const Operands<T>& t) {
  const int64_t width = t.in_shape(0).back();
  const double count = static_cast<double>(width);
  for (int64_t row = 0; row < ElementCount(t.in_shape(0)) / width; ++row) {
    const T* x = t.in(0) + row * width;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < width; ++i) sum += x[i];
    const double mean = sum / count;
    for (int64_t i = 0; i < width; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const double var = squares / count;
    const double inverse = 1 / std::sqrt(var + op.epsilon);
    for (int64_t i = 0; i < width; ++i) {
      t.out(0)[row * width + i] = static_cast<T>((x[i] - mean) * inverse * t.in(1)[i] + t.in(2)[i]);
    }
    t.out(1)[row] = static_cast<T>(mean);
    t.out(2)[row] = static_cast<T>(var);
  }
}

template <typename T>
void Compute(const LayerNormBackward& op, const Operands<T>& t) {
  const T *x = t.in(0), *gamma = t.in(1), *dy = t.in(4);
  const int64_t width = t.in_shape(0).back(), rows = ElementCount(t.in_shape(0)) / width;
  const double count = static_cast<double>(width);
  std::vector<double> dgamma(width), dbeta(width);
  for (int64_t row = 0; row < rows; ++row, x += width, dy += width) {
    const double mean = t.in(2)[row];
    const double inverse = 1 / std::sqrt(double{t.in(3)[row]} + op.forward.epsilon);
    double sum = 0, projected = 0;  // sums of gamma dy and of gamma dy xhat
    for (int64_t i = 0; i < width; ++i) {
      const double normal = (x[i] - mean) * inverse;
      dgamma[i] += dy[i] * normal;
      dbeta[i] += dy[i];
      sum += double{gamma[i]} * dy[i];
      projected += double{gamma[i]} * dy[i] * normal;
    }
    if (t.outputs() < 3) continue;
    for (int64_t i = 0; i < width; ++i) {
      const double normal = (x[i] - mean) * inverse;
      t.out(2)[row * width + i] = static_cast<T>(
          inverse * (double{gamma[i]} * dy[i] - sum / count - normal * projected / count));
    }
  }
  for (int64_t i = 0; i < width; ++i) {
    t.out(0)[i] = static_cast<T>(dgamma[i]);
    t.out(1)[i] = static_cast<T>(dbeta[i]);
  }
}

PSGD_REFERENCE_OP(LayerNorm);
PSGD_REFERENCE_OP(LayerNormBackward);

}  // namespace psgd::reference
