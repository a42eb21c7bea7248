#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"
#include "engine/cudnn/staircase.h"

namespace psgd::cudnn {

void Lower(const Softmax& op, const Context& c) {
  Lowering& l = c.lowering;
  const Shape& shape = l.shape(c.in(0));
  SoftmaxShape softmax = {.rows = ElementCount(shape) / shape.back(),
                          .keys = shape.back(),
                          .queries = op.causal ? shape[shape.size() - 2] : 0,
                          .stair = l.staircase(c.out(0)) ? kStair : 0,
                          .rows_each = 1,
                          .scale = op.scale};
  BufferId lengths = kNoBuffer;
  if (c.has_in(1)) {
    softmax.rows_each = softmax.rows / shape[0];
    lengths = l.Native(c.in(1)).buffer;
  }
  const View x = l.Get(c.in(0), l.PlainFormat()), y = l.Put(c.out(0), l.PlainFormat());
  l.Run(SoftmaxForward, l.type(), softmax, x, lengths, y);
}

// Masked places have y = 0, so dx = 0. Backward needs no masks.
void Lower(const SoftmaxBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const Shape& shape = l.shape(c.in(0));
  const SoftmaxShape softmax = {.rows = ElementCount(shape) / shape.back(),
                                .keys = shape.back(),
                                .queries = op.forward.causal ? shape[shape.size() - 2] : 0,
                                .stair = l.staircase(c.out(0)) ? kStair : 0,
                                .rows_each = 1,
                                .scale = op.forward.scale};
  const View y = l.Get(c.in(0), l.PlainFormat()), dy = l.Get(c.in(1), l.PlainFormat());
  const View dx = l.Put(c.out(0), l.PlainFormat());
  l.Run(SoftmaxGradient, l.type(), softmax, y, dy, dx);
}

}  // namespace psgd::cudnn
