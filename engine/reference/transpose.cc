#include "engine/reference/compute.h"

namespace psgd::reference {

template <typename T>
void Compute(const Transpose& op, const Operands<T>& t) {
  const Shape &from = t.in_shape(0), &to = t.out_shape(0);
  const size_t rank = from.size();
  std::vector<int64_t> strides(rank, 1);  // of x
  for (size_t i = rank - 1; i-- > 0;) strides[i] = strides[i + 1] * from[i + 1];
  for (int64_t i = 0; i < ElementCount(to); ++i) {
    int64_t rest = i, source = 0;
    for (size_t axis = rank; axis-- > 0; rest /= to[axis]) {
      source += rest % to[axis] * strides[op.permutation[axis]];
    }
    t.out(0)[i] = t.in(0)[source];
  }
}

PSGD_REFERENCE_OP(Transpose);

}  // namespace psgd::reference
