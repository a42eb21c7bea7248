#include "engine/onednn/lower.h"

namespace psgd::onednn {
namespace {

// The matrices of a plain tensor, as they are multiplied: a transposed one is read by columns.
Desc Matrices(const Lowering& l, TensorId tensor, bool transposed) {
  const Shape& shape = l.graph().shape(tensor);
  const int64_t rows = shape[shape.size() - 2], columns = shape.back(), area = rows * columns;
  const int64_t count = ElementCount(shape) / area;
  constexpr auto kFloat = dnnl::memory::data_type::f32;
  if (transposed) return Desc({count, columns, rows}, kFloat, Dims{area, 1, columns});
  return Desc({count, rows, columns}, kFloat, Dims{area, columns, 1});
}

}  // namespace

void Lower(const MatMul& op, const Context& c) {
  Lowering& l = c.lowering;
  const Desc a = Matrices(l, c.in(0), op.transpose_a), b = Matrices(l, c.in(1), op.transpose_b);
  const Desc y = Matrices(l, c.out(0), false);
  const dnnl::matmul::primitive_desc pd({a, b, y}, PlannedScratchpad(), l.engine());
  l.Call(dnnl::matmul(pd), {{DNNL_ARG_SRC, {a, l.GetPlain(c.in(0)).buffer}},
                            {DNNL_ARG_WEIGHTS, {b, l.GetPlain(c.in(1)).buffer}},
                            {DNNL_ARG_DST, {y, l.PutPlain(c.out(0)).buffer}},
                            {DNNL_ARG_SCRATCHPAD, l.Scratch(pd)}});
}

}  // namespace psgd::onednn
