#include "engine/cudnn/move.h"

namespace psgd::cudnn {

void Lower(const Transpose& op, const Context& c) {
  Lowering& l = c.lowering;
  const View x = l.Get(c.in(0), l.PlainFormat()), y = l.Put(c.out(0), l.PlainFormat());
  const Shape& shape = l.shape(c.out(0));
  const Shape strides = StridesOf(l.shape(c.in(0)), Layout::kPlain);
  Shape from;
  for (int axis : op.permutation) from.push_back(strides[axis]);
  PutMove(c, x, y,
          {.size = shape,
           .from_strides = std::move(from),
           .to_strides = StridesOf(shape, Layout::kPlain)});
}

}  // namespace psgd::cudnn
