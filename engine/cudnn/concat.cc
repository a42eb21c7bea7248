#include "engine/cudnn/move.h"

namespace psgd::cudnn {

// Uses the layout of the first part, because branches of an image network are all channels-last.
void Lower(const Concat& op, const Context& c) {
  Lowering& l = c.lowering;
  const Format format = l.GetAsWritten(c.in(0)).format;
  const Shape strides = StridesOf(l.shape(c.out(0)), format.layout);
  const View y = l.Put(c.out(0), format);
  int64_t begin = 0;
  for (TensorId part : c.node.inputs) {
    const Shape& shape = l.shape(part);
    PutMove(c, l.Get(part, format), y,
            {.size = shape,
             .from_strides = StridesOf(shape, format.layout),
             .to_strides = strides,
             .to_begin = begin * strides[op.axis]});
    begin += shape[op.axis];
  }
}

}  // namespace psgd::cudnn
