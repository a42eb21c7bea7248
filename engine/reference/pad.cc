#include <algorithm>

#include "engine/reference/compute.h"

namespace psgd::reference {

// Copies whole rows.
template <typename T>
void Compute(const Pad& op, const Operands<T>& t) {
  const Shape &x_shape = t.in_shape(0), &y_shape = t.out_shape(0);
  const T* x = t.in(0);
  T* y = t.out(0);
  std::fill_n(y, ElementCount(y_shape), static_cast<T>(op.value));
  const size_t rank = x_shape.size();
  const int64_t width = x_shape[rank - 1];
  for (int64_t row = 0; row < ElementCount(x_shape) / width; ++row, x += width) {
    int64_t rest = row, place = op.before[rank - 1], stride = y_shape[rank - 1];
    for (size_t axis = rank - 1; axis-- > 0;) {
      place += (rest % x_shape[axis] + op.before[axis]) * stride;
      rest /= x_shape[axis];
      stride *= y_shape[axis];
    }
    std::copy_n(x, width, y + place);
  }
}

PSGD_REFERENCE_OP(Pad);

}  // namespace psgd::reference
