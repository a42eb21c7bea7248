#include "engine/ops/pad_loops.h"
#include "engine/reference/compute.h"

namespace psgd::reference {

template <typename T>
void Compute(const Pad& op, const Operands<T>& t) {
  PadForward(op, t.in_shape(0), t.out_shape(0), t.in(0), t.out(0));
}

PSGD_REFERENCE_OP(Pad);

}  // namespace psgd::reference
