#include "engine/onednn/lower.h"
#include "engine/ops/pad_loops.h"

namespace psgd::onednn {

void Lower(const Pad& op, const Context& c) {
  Lowering& l = c.lowering;
  const Shape x_shape = l.graph().shape(c.in(0)), y_shape = l.graph().shape(c.out(0));
  const BufferId x = l.GetPlain(c.in(0)).buffer, y = l.PutPlain(c.out(0)).buffer;
  l.Call([=](const Buffers& buffers, const Step&) {
    PadForward(op, x_shape, y_shape, static_cast<const float*>(buffers[x]),
               static_cast<float*>(buffers[y]));
  });
}

}  // namespace psgd::onednn
