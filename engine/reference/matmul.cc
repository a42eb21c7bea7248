#include "engine/reference/compute.h"

namespace psgd::reference {

template <typename T>
void Compute(const MatMul& op, const Operands<T>& t) {
  const Shape &left = t.in_shape(0), &y = t.out_shape(0);
  const int64_t rows = y[y.size() - 2], columns = y.back();
  const int64_t inner = op.transpose_a ? left[left.size() - 2] : left.back();
  for (int64_t m = 0; m < ElementCount(y) / (rows * columns); ++m) {
    const T *a = t.in(0) + m * rows * inner, *b = t.in(1) + m * inner * columns;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < inner; ++k) {
          sum += double{a[op.transpose_a ? k * rows + i : i * inner + k]} *
                 b[op.transpose_b ? j * inner + k : k * columns + j];
        }
        t.out(0)[(m * rows + i) * columns + j] = static_cast<T>(op.scale * sum);
      }
    }
  }
}

PSGD_REFERENCE_OP(MatMul);

}  // namespace psgd::reference
