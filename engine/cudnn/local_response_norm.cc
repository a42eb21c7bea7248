#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

// Channels-last images are a matrix with a row a pixel.
void Lower(const LocalResponseNorm& op, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t channels = l.shape(c.in(0))[1], pixels = l.elements(c.in(0)) / channels;
  const View x = l.GetUsual(c.in(0)), y = l.PutUsual(c.out(0));
  const BufferId scale = l.PutOpaque(c.out(1), l.elements(c.in(0)) * sizeof(float));
  l.Run(ResponseNormForward, l.type(), op, pixels, channels, x, y, scale);
}

void Lower(const LocalResponseNormBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t channels = l.shape(c.in(0))[1], pixels = l.elements(c.in(0)) / channels;
  const View x = l.GetUsual(c.in(0)), dy = l.GetUsual(c.in(2)), dx = l.PutUsual(c.out(0));
  const BufferId scale = l.Opaque(c.in(1));
  l.Run(ResponseNormGradient, l.type(), op.forward, pixels, channels, x, scale, dy, dx);
}

}  // namespace psgd::cudnn
