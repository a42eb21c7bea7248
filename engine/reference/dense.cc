#include "engine/reference/compute.h"

namespace psgd::reference {

template <typename T>
void Compute(const Dense&, const Operands<T>& t) {
  const T *x = t.in(0), *w = t.in(1);
  const int64_t batch = t.in_shape(0)[0], inputs = t.in_shape(0)[1], outputs = t.in_shape(1)[0];
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t o = 0; o < outputs; ++o) {
      double sum = t.inputs() > 2 ? double{t.in(2)[o]} : 0.0;
      for (int64_t i = 0; i < inputs; ++i) sum += double{x[n * inputs + i]} * w[o * inputs + i];
      t.out(0)[n * outputs + o] = static_cast<T>(sum);
    }
  }
}

template <typename T>
void Compute(const DenseBackwardData&, const Operands<T>& t) {
  const T *w = t.in(0), *dy = t.in(1);
  const int64_t outputs = t.in_shape(0)[0], inputs = t.in_shape(0)[1], batch = t.in_shape(1)[0];
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t i = 0; i < inputs; ++i) {
      double sum = 0;
      for (int64_t o = 0; o < outputs; ++o) sum += double{dy[n * outputs + o]} * w[o * inputs + i];
      t.out(0)[n * inputs + i] = static_cast<T>(sum);
    }
  }
}

template <typename T>
void Compute(const DenseBackwardWeights&, const Operands<T>& t) {
  const T *x = t.in(0), *dy = t.in(1);
  const int64_t batch = t.in_shape(0)[0], inputs = t.in_shape(0)[1], outputs = t.in_shape(1)[1];
  for (int64_t o = 0; o < outputs; ++o) {
    for (int64_t i = 0; i < inputs; ++i) {
      double sum = 0;
      for (int64_t n = 0; n < batch; ++n) sum += double{dy[n * outputs + o]} * x[n * inputs + i];
      t.out(0)[o * inputs + i] = static_cast<T>(sum);
    }
    if (t.outputs() < 2) continue;
    double sum = 0;
    for (int64_t n = 0; n < batch; ++n) sum += dy[n * outputs + o];
    t.out(1)[o] = static_cast<T>(sum);
  }
}

PSGD_REFERENCE_OP(Dense);
PSGD_REFERENCE_OP(DenseBackwardData);
PSGD_REFERENCE_OP(DenseBackwardWeights);

}  // namespace psgd::reference
