#include <algorithm>

#include "engine/reference/compute.h"

namespace psgd::reference {

// Treats a tensor as rows: the axes before `op.axis` number the rows, the others lie in a row.
template <typename T>
void Compute(const Concat& op, const Operands<T>& t) {
  const Shape& whole = t.out_shape(0);
  const int64_t rows = ElementCount(Shape(whole.begin(), whole.begin() + op.axis));
  T* out = t.out(0);
  for (int64_t row = 0; row < rows; ++row) {
    for (int part = 0; part < t.inputs(); ++part) {
      const int64_t length = ElementCount(t.in_shape(part)) / rows;
      out = std::copy_n(t.in(part) + row * length, length, out);
    }
  }
}

PSGD_REFERENCE_OP(Concat);

}  // namespace psgd::reference
