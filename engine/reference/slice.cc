#include <algorithm>

#include "engine/reference/compute.h"

namespace psgd::reference {

// Treats a tensor as rows: the axes before `op.axis` number the rows, the others lie in a row.
template <typename T>
void Compute(const Slice& op, const Operands<T>& t) {
  const Shape &whole = t.in_shape(0), &part = t.out_shape(0);
  const int64_t rows = ElementCount(Shape(whole.begin(), whole.begin() + op.axis));
  const int64_t from_length = ElementCount(whole) / rows, length = ElementCount(part) / rows;
  const int64_t begin = op.begin * (length / part[op.axis]);
  for (int64_t row = 0; row < rows; ++row) {
    std::copy_n(t.in(0) + row * from_length + begin, length, t.out(0) + row * length);
  }
}

PSGD_REFERENCE_OP(Slice);

}  // namespace psgd::reference
