#include <algorithm>

#include "engine/reference/compute.h"

namespace psgd::reference {

template <typename T>
void Compute(const Constant& op, const Operands<T>& t) {
  std::copy(op.values->begin(), op.values->end(), t.out(0));
}

PSGD_REFERENCE_OP(Constant);

}  // namespace psgd::reference
