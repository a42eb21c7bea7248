#include "engine/ops/adaptive_average_pool_loops.h"
#include "engine/reference/compute.h"

namespace psgd::reference {

template <typename T>
void Compute(const AdaptiveAveragePool&, const Operands<T>& t) {
  AdaptiveAveragePoolForward(t.in_shape(0), t.out_shape(0), t.in(0), t.out(0));
}

template <typename T>
void Compute(const AdaptiveAveragePoolBackward&, const Operands<T>& t) {
  AdaptiveAveragePoolGradient(t.out_shape(0), t.in_shape(0), t.in(0), t.out(0));
}

PSGD_REFERENCE_OP(AdaptiveAveragePool);
PSGD_REFERENCE_OP(AdaptiveAveragePoolBackward);

}  // namespace psgd::reference
