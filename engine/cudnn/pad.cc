#include "engine/cudnn/move.h"

namespace psgd::cudnn {

void Lower(const Pad& op, const Context& c) {
  Lowering& l = c.lowering;
  const View x = l.GetAsWritten(c.in(0)), y = l.Put(c.out(0), x.format);
  const Shape& shape = l.shape(c.in(0));
  const Shape strides = StridesOf(l.shape(c.out(0)), x.format.layout);
  int64_t begin = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) begin += op.before[axis] * strides[axis];
  l.Run(Fill, l.type(), l.elements(c.out(0)), op.value, y);
  PutMove(c, x, y,
          {.size = shape,
           .from_strides = StridesOf(shape, x.format.layout),
           .to_strides = strides,
           .to_begin = begin});
}

}  // namespace psgd::cudnn
