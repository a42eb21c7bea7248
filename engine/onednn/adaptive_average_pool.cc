#include "engine/ops/adaptive_average_pool_loops.h"

#include "engine/onednn/lower.h"

namespace psgd::onednn {

void Lower(const AdaptiveAveragePool&, const Context& c) {
  Lowering& l = c.lowering;
  const Shape x_shape = l.graph().shape(c.in(0)), y_shape = l.graph().shape(c.out(0));
  const BufferId x = l.GetPlain(c.in(0)).buffer, y = l.PutPlain(c.out(0)).buffer;
  l.Call([=](const Buffers& buffers, const Step&) {
    AdaptiveAveragePoolForward(x_shape, y_shape, static_cast<const float*>(buffers[x]),
                               static_cast<float*>(buffers[y]));
  });
}

void Lower(const AdaptiveAveragePoolBackward&, const Context& c) {
  Lowering& l = c.lowering;
  const Shape x_shape = l.graph().shape(c.out(0)), y_shape = l.graph().shape(c.in(0));
  const BufferId dy = l.GetPlain(c.in(0)).buffer, dx = l.PutPlain(c.out(0)).buffer;
  l.Call([=](const Buffers& buffers, const Step&) {
    AdaptiveAveragePoolGradient(x_shape, y_shape, static_cast<const float*>(buffers[dy]),
                                static_cast<float*>(buffers[dx]));
  });
}

}  // namespace psgd::onednn
