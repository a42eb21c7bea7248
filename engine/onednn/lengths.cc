#include "engine/onednn/lower.h"

namespace psgd::onednn {

void Lower(const Lengths& op, const Context& c) {
  Lowering& l = c.lowering;
  const Shape tokens = l.graph().shape(c.in(0));
  const BufferId x_buffer = l.Native(c.in(0)).buffer, y_buffer = l.PutPlain(c.out(0)).buffer;
  l.Call([=](const Buffers& buffers, const Step&) {
    const int32_t* x = static_cast<const int32_t*>(buffers[x_buffer]);
    int32_t* y = static_cast<int32_t*>(buffers[y_buffer]);
    for (int64_t n = 0; n < tokens[0]; ++n) y[n] = op.Of(x + n * tokens[1]);
  });
}

}  // namespace psgd::onednn
