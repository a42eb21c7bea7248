#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

namespace {

// Channels-last images as a matrix with a row a pixel.
struct Pixels {
  explicit Pixels(const Shape& x) : count(ElementCount(x) / x[1]), channels(x[1]) {}

  int64_t count, channels;
};

}  // namespace

void Lower(const LocalResponseNorm& op, const Context& c) {
  Lowering& l = c.lowering;
  const Pixels pixels(l.shape(c.in(0)));
  const View x = l.GetUsual(c.in(0)), y = l.PutUsual(c.out(0));
  const BufferId scale = l.PutOpaque(c.out(1), l.elements(c.in(0)) * sizeof(float));
  l.Run(ResponseNormForward, l.type(), op, pixels.count, pixels.channels, x, y, scale);
}

void Lower(const LocalResponseNormBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const Pixels pixels(l.shape(c.in(0)));
  const View x = l.GetUsual(c.in(0)), dy = l.GetUsual(c.in(2)), dx = l.PutUsual(c.out(0));
  const BufferId scale = l.Opaque(c.in(1));
  l.Run(ResponseNormGradient, l.type(), op.forward, pixels.count, pixels.channels, x, scale, dy,
        dx);
}

}  // namespace psgd::cudnn
