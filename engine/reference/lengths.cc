#include "engine/reference/compute.h"

namespace psgd::reference {

template <typename T>
void Compute(const Lengths& op, const Operands<T>& t) {
  const int64_t rows = t.in_shape(0)[0], tokens = t.in_shape(0)[1];
  for (int64_t n = 0; n < rows; ++n) {
    t.template out_as<int32_t>(0)[n] = op.Of(t.template in_as<int32_t>(0) + n * tokens);
  }
}

PSGD_REFERENCE_OP(Lengths);

}  // namespace psgd::reference
