#include "engine/ops/softmax_loops.h"
#include "engine/reference/compute.h"

namespace psgd::reference {

template <typename T>
void Compute(const SoftmaxCrossEntropy& op, const Operands<T>& t) {
  SoftmaxCrossEntropyForward(op, LogitsLayout(t.in_shape(0)), t.in(0), t.template in_as<int32_t>(1),
                             t.template out_as<PlaceSoftmax>(0), t.template out_as<double>(1));
}

template <typename T>
void Compute(const SoftmaxCrossEntropyBackward& op, const Operands<T>& t) {
  SoftmaxCrossEntropyGradient(op.forward, LogitsLayout(t.in_shape(0)), t.in(0),
                              t.template in_as<PlaceSoftmax>(1), t.template in_as<int32_t>(2),
                              t.template in_as<double>(3), t.out(0));
}

PSGD_REFERENCE_OP(SoftmaxCrossEntropy);
PSGD_REFERENCE_OP(SoftmaxCrossEntropyBackward);

}  // namespace psgd::reference
