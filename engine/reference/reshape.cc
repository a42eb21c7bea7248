#include <algorithm>

#include "engine/reference/compute.h"

namespace psgd::reference {

template <typename T>
void Compute(const Reshape&, const Operands<T>& t) {
  std::copy_n(t.in(0), ElementCount(t.in_shape(0)), t.out(0));
}

PSGD_REFERENCE_OP(Reshape);

}  // namespace psgd::reference
