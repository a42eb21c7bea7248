#include "engine/reference/compute.h"

namespace psgd::reference {

template <typename T>
void Compute(const Select& op, const Operands<T>& t) {
  for (int64_t i = 0; i < ElementCount(t.out_shape(0)); ++i) {
    const T a = op.a ? T(*op.a) : t.in(op.place_of_a())[i];
    const T b = op.b ? T(*op.b) : t.in(op.place_of_b())[i];
    t.out(0)[i] = Selected(t.in(0)[i], a, b);
  }
}

PSGD_REFERENCE_OP(Select);

}  // namespace psgd::reference
