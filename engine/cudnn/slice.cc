#include "engine/cudnn/move.h"

namespace psgd::cudnn {

void Lower(const Slice& op, const Context& c) {
  Lowering& l = c.lowering;
  const View x = l.GetAsWritten(c.in(0)), y = l.Put(c.out(0), x.format);
  const Shape& shape = l.shape(c.out(0));
  const Shape strides = StridesOf(l.shape(c.in(0)), x.format.layout);
  PutMove(c, x, y,
          {.size = shape,
           .from_strides = strides,
           .to_strides = StridesOf(shape, x.format.layout),
           .from_begin = op.begin * strides[op.axis]});
}

}  // namespace psgd::cudnn
