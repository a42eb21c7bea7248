#include "engine/reference/compute.h"

namespace psgd::reference {

template <typename T>
void Compute(const Mul&, const Operands<T>& t) {
  for (int64_t i = 0; i < ElementCount(t.out_shape(0)); ++i) t.out(0)[i] = t.in(0)[i] * t.in(1)[i];
}

PSGD_REFERENCE_OP(Mul);

}  // namespace psgd::reference
