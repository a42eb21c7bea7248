// Upsample and AdaptiveAveragePool: images of one size from images of another size.
#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {
namespace {

// `x`, `y`: of the forward op, whose gradients have the same shapes.
template <typename Kernel>
void LowerResize(const Context& c, TensorId x, TensorId y, Kernel* kernel) {
  Lowering& l = c.lowering;
  const Shape &from = l.shape(x), &to = l.shape(y);
  const ResizeShape shape = {from[0], from[1], from[2], from[3], to[2], to[3]};
  const BufferId in = l.GetUsual(c.in(0)).buffer, out = l.PutUsual(c.out(0)).buffer;
  l.Run(kernel, l.type(), shape, in, out);
}

}  // namespace

void Lower(const Upsample&, const Context& c) {
  LowerResize(c, c.in(0), c.out(0), UpsampleForward);
}

void Lower(const UpsampleBackward&, const Context& c) {
  LowerResize(c, c.out(0), c.in(0), UpsampleGradient);
}

void Lower(const AdaptiveAveragePool&, const Context& c) {
  LowerResize(c, c.in(0), c.out(0), AdaptivePoolForward);
}

void Lower(const AdaptiveAveragePoolBackward&, const Context& c) {
  LowerResize(c, c.out(0), c.in(0), AdaptivePoolGradient);
}

}  // namespace psgd::cudnn
