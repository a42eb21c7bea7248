#include "engine/ops/activation_formula.h"
#include "engine/reference/compute.h"

namespace psgd::reference {

template <typename T>
void Compute(const Activation& op, const Operands<T>& t) {
  for (int64_t i = 0; i < ElementCount(t.in_shape(0)); ++i) {
    t.out(0)[i] = static_cast<T>(ActivationOf(op, double{t.in(0)[i]}));
  }
}

template <typename T>
void Compute(const ActivationBackward& op, const Operands<T>& t) {
  for (int64_t i = 0; i < ElementCount(t.in_shape(0)); ++i) {
    t.out(0)[i] = static_cast<T>(t.in(1)[i] * ActivationSlope(op.forward, double{t.in(0)[i]}));
  }
}

PSGD_REFERENCE_OP(Activation);
PSGD_REFERENCE_OP(ActivationBackward);

}  // namespace psgd::reference
