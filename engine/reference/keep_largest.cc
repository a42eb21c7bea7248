#include <vector>

#include "engine/ops/keep_largest_loops.h"
#include "engine/reference/compute.h"

namespace psgd::reference {

template <typename T>
void Compute(const KeepLargest& op, const Operands<T>& t) {
  const int64_t rows = t.in_shape(0)[0], columns = t.in_shape(0)[1];
  std::vector<T> scratch(static_cast<size_t>(columns));
  for (int64_t row = 0; row < rows; ++row) {
    KeepLargestOfRow(t.in(0) + row * columns, columns, op.count, scratch.data(),
                     t.out(0) + row * columns);
  }
}

PSGD_REFERENCE_OP(KeepLargest);

}  // namespace psgd::reference
