#include "engine/cudnn/blas.h"

namespace psgd::cudnn {

void Lower(const MatMul& op, const Context& c) {
  Lowering& l = c.lowering;
  const auto matrix = [&](TensorId tensor, const View& view, bool transposed) {
    const Shape& shape = l.shape(tensor);
    return Matrix{view, shape[shape.size() - 2], shape.back(), transposed};
  };
  const Matrix a = matrix(c.in(0), l.Get(c.in(0), l.PlainFormat()), op.transpose_a);
  const Matrix b = matrix(c.in(1), l.Get(c.in(1), l.PlainFormat()), op.transpose_b);
  const Matrix y = matrix(c.out(0), l.Put(c.out(0), l.PlainFormat()), false);
  Multiply(c, a, b, y, {.count = l.elements(c.out(0)) / (y.rows * y.columns), .scale = op.scale});
}

}  // namespace psgd::cudnn
