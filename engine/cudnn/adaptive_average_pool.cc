#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

namespace {

ResizeShape ShapeOf(const Shape& x, const Shape& y) { return {x[0], x[1], x[2], x[3], y[2], y[3]}; }

}  // namespace

void Lower(const AdaptiveAveragePool&, const Context& c) {
  Lowering& l = c.lowering;
  const ResizeShape shape = ShapeOf(l.shape(c.in(0)), l.shape(c.out(0)));
  const View x = l.GetUsual(c.in(0)), y = l.PutUsual(c.out(0));
  l.CallKernel([=, stream = l.stream(), type = l.type()](const Buffers& b, const Step&) {
    return AdaptivePoolForward(stream, type, shape, b[x.buffer], b[y.buffer]);
  });
}

void Lower(const AdaptiveAveragePoolBackward&, const Context& c) {
  Lowering& l = c.lowering;
  const ResizeShape shape = ShapeOf(l.shape(c.out(0)), l.shape(c.in(0)));
  const View dy = l.GetUsual(c.in(0)), dx = l.PutUsual(c.out(0));
  l.CallKernel([=, stream = l.stream(), type = l.type()](const Buffers& b, const Step&) {
    return AdaptivePoolGradient(stream, type, shape, b[dy.buffer], b[dx.buffer]);
  });
}

}  // namespace psgd::cudnn
