#include "engine/onednn/lower.h"

namespace psgd::onednn {
namespace {

// The matrices of a plain tensor as they are multiplied. A transposed matrix is read by columns.
Desc Matrices(const Lowering& l, TensorId tensor, bool transposed, Type type) {
  const Shape& shape = l.graph().shape(tensor);
  const int64_t rows = shape[shape.size() - 2], columns = shape.back(), area = rows * columns;
  const int64_t count = ElementCount(shape) / area;
  if (transposed) return Desc({count, columns, rows}, type, Dims{area, 1, columns});
  return Desc({count, rows, columns}, type, Dims{area, columns, 1});
}

}  // namespace

void Lower(const MatMul& op, const Context& c) {
  Lowering& l = c.lowering;
  const Type real = l.real(), made = l.TypeOfOutput(c.out(0));
  const Desc a = Matrices(l, c.in(0), op.transpose_a, real);
  const Desc b = Matrices(l, c.in(1), op.transpose_b, real);
  const Desc y = Matrices(l, c.out(0), false, made);
  dnnl::primitive_attr attributes = PlannedScratchpad();
  if (op.scale != 1) {
    dnnl::post_ops then;
    then.append_eltwise(1.0f, dnnl::algorithm::eltwise_linear, op.scale, 0.0f);
    attributes.set_post_ops(then);
  }
  const dnnl::matmul::primitive_desc pd({a, b, y}, attributes, l.engine());
  l.Run<dnnl::matmul>(pd, {{DNNL_ARG_SRC, {a, l.GetPlain(c.in(0), real).buffer}},
                           {DNNL_ARG_WEIGHTS, {b, l.GetPlain(c.in(1), real).buffer}},
                           {DNNL_ARG_DST, {y, l.PutPlain(c.out(0), made).buffer}}});
}

}  // namespace psgd::onednn
