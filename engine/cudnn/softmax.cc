#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"
#include "engine/cudnn/staircase.h"

namespace psgd::cudnn {

namespace {

SoftmaxShape ShapeOf(const Softmax& op, const Context& c) {
  const Shape& shape = c.lowering.shape(c.in(0));
  return {.rows = ElementCount(shape) / shape.back(),
          .keys = shape.back(),
          .queries = op.causal ? shape[shape.size() - 2] : 0,
          .stair = c.lowering.staircase(c.out(0)) ? kStair : 0,
          .rows_each = 1,
          .scale = op.scale};
}

}  // namespace

void Lower(const Softmax& op, const Context& c) {
  Lowering& l = c.lowering;
  SoftmaxShape softmax = ShapeOf(op, c);
  BufferId lengths = kNoBuffer;
  if (c.has_in(1)) {
    softmax.rows_each = softmax.rows / l.shape(c.in(0))[0];
    lengths = l.Native(c.in(1)).buffer;
  }
  const View x = l.Get(c.in(0), l.PlainFormat()), y = l.Put(c.out(0), l.PlainFormat());
  l.Run(SoftmaxForward, l.type(), softmax, x, lengths, y);
}

// Masked places have y = 0, so dx = 0. Backward needs no masks.
void Lower(const SoftmaxBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const SoftmaxShape softmax = ShapeOf(op.forward, c);
  const View y = l.Get(c.in(0), l.PlainFormat()), dy = l.Get(c.in(1), l.PlainFormat());
  const View dx = l.Put(c.out(0), l.PlainFormat());
  l.Run(SoftmaxGradient, l.type(), softmax, y, dy, dx);
}

}  // namespace psgd::cudnn
