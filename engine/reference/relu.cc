#include "engine/reference/compute.h"

namespace psgd::reference {

template <typename T>
void Compute(const Relu&, const Operands<T>& t) {
  const T* x = t.in(0);
  for (int64_t i = 0; i < ElementCount(t.in_shape(0)); ++i) t.out(0)[i] = x[i] <= 0 ? T{0} : x[i];
}

template <typename T>
void Compute(const ReluBackward&, const Operands<T>& t) {
  const T *y = t.in(0), *dy = t.in(1);
  for (int64_t i = 0; i < ElementCount(t.in_shape(0)); ++i) t.out(0)[i] = y[i] <= 0 ? T{0} : dy[i];
}

PSGD_REFERENCE_OP(Relu);
PSGD_REFERENCE_OP(ReluBackward);

}  // namespace psgd::reference
