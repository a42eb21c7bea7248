#include "engine/ops/axis_map_loops.h"
#include "engine/reference/compute.h"

namespace psgd::reference {

template <typename T>
void Compute(const AxisMap& op, const Operands<T>& t) {
  const AxisPlace place = PlaceOfAxis(t.in_shape(0), op.axis);
  const int64_t columns = op.matrix->columns, rows = op.matrix->rows();
  for (int64_t outer = 0; outer < place.outer; ++outer) {
    for (int64_t row = 0; row < rows; ++row) {
      MapRow(*op.matrix, row, place.inner, t.in(0) + outer * columns * place.inner,
             t.out(0) + (outer * rows + row) * place.inner);
    }
  }
}

PSGD_REFERENCE_OP(AxisMap);

}  // namespace psgd::reference
