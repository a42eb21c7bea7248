#include "engine/ops/element_loss_loops.h"

#include "engine/reference/compute.h"

namespace psgd::reference {

template <typename T>
void Compute(const ElementLoss& op, const Operands<T>& t) {
  ElementLossForward(op, LogitsLayout(t.in_shape(0)), t.in(0), t.template in_as<int32_t>(1),
                     t.inputs() > 2 ? t.in(2) : nullptr, t.template out_as<double>(0));
}

template <typename T>
void Compute(const ElementLossBackward& op, const Operands<T>& t) {
  ElementLossGradient(op.forward, LogitsLayout(t.in_shape(0)), t.in(0),
                      t.template in_as<int32_t>(1), t.inputs() > 3 ? t.in(3) : nullptr,
                      t.template in_as<double>(2), t.out(0));
}

PSGD_REFERENCE_OP(ElementLoss);
PSGD_REFERENCE_OP(ElementLossBackward);

}  // namespace psgd::reference
