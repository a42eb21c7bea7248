#include "engine/cudnn/blas.h"
#include "engine/cudnn/staircase.h"

namespace psgd::cudnn {
namespace {

// Rows [row, row_end) and columns [column, column_end) of a matrix in memory.
Matrix PartOf(const Matrix& whole, int64_t row, int64_t row_end, int64_t column,
              int64_t column_end) {
  Matrix part = whole;
  part.rows = row_end - row;
  part.columns = column_end - column;
  part.begin = row * whole.columns + column;
  part.stride = whole.columns;
  part.area = whole.rows * whole.columns;
  return part;
}
// The same of a factor as it is multiplied.
Matrix PartOfFactor(const Matrix& whole, int64_t row, int64_t row_end, int64_t column,
                    int64_t column_end) {
  return whole.transposed ? PartOf(whole, column, column_end, row, row_end)
                          : PartOf(whole, row, row_end, column, column_end);
}

// A product by blocks of rows. Its result, its left factor or both are staircases.
void MultiplyStairs(const Context& c, const Matrix& a, const Matrix& b, const Matrix& y,
                    bool result_is, bool left_is, const ProductOptions& options) {
  const int64_t inner = a.transposed ? a.rows : a.columns;
  for (int64_t row = 0; row < y.rows; row += kStair) {
    const int64_t row_end = row + kStair, columns = result_is ? row_end : y.columns;
    // What the left factor has in these rows: of its transpose, the columns from the diagonal on.
    const int64_t first = left_is && a.transposed ? row : 0;
    const int64_t last = left_is && !a.transposed ? row_end : inner;
    Multiply(c, PartOfFactor(a, row, row_end, first, last),
             PartOfFactor(b, first, last, 0, columns), PartOf(y, row, row_end, 0, columns),
             options);
  }
}

}  // namespace

void Lower(const MatMul& op, const Context& c) {
  Lowering& l = c.lowering;
  const auto matrix = [&](TensorId tensor, const View& view, bool transposed) {
    const Shape& shape = l.shape(tensor);
    return Matrix{view, shape[shape.size() - 2], shape.back(), transposed};
  };
  const Matrix a = matrix(c.in(0), l.Get(c.in(0), l.PlainFormat()), op.transpose_a);
  const Matrix b = matrix(c.in(1), l.Get(c.in(1), l.PlainFormat()), op.transpose_b);
  const Matrix y = matrix(c.out(0), l.Put(c.out(0), l.PlainFormat()), false);
  const ProductOptions options = {.count = l.elements(c.out(0)) / (y.rows * y.columns),
                                  .scale = op.scale};
  const bool result_is = l.staircase(c.out(0)), left_is = l.staircase(c.in(0));
  if (result_is || left_is) {
    MultiplyStairs(c, a, b, y, result_is, left_is, options);
  } else {
    Multiply(c, a, b, y, options);
  }
}

}  // namespace psgd::cudnn
