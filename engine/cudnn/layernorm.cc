#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

// A tensor of any rank is a matrix of rows of its last axis.
void Lower(const LayerNorm& op, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t width = l.shape(c.in(0)).back(), rows = l.elements(c.in(0)) / width;
  const View x = l.Get(c.in(0), l.PlainFormat()), y = l.Put(c.out(0), l.PlainFormat());
  const View gamma = l.Get(c.in(1), kPlainFloat), beta = l.Get(c.in(2), kPlainFloat);
  const View mean = l.Put(c.out(1), kPlainFloat), var = l.Put(c.out(2), kPlainFloat);
  l.Run(LayerNormForward, l.type(), rows, width, x, gamma, beta, op.epsilon, y, mean, var);
}

void Lower(const LayerNormBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t width = l.shape(c.in(0)).back(), rows = l.elements(c.in(0)) / width;
  const float epsilon = op.forward.epsilon;
  const View x = l.Get(c.in(0), l.PlainFormat()), dy = l.Get(c.in(4), l.PlainFormat());
  const View gamma = l.Get(c.in(1), kPlainFloat);
  const View mean = l.Get(c.in(2), kPlainFloat), var = l.Get(c.in(3), kPlainFloat);
  const View dgamma = l.Put(c.out(0), kPlainFloat), dbeta = l.Put(c.out(1), kPlainFloat);
  const BufferId partial = l.Temporary(ColumnPartials(rows, width, 2) * sizeof(float));
  l.Run(LayerNormSums, l.type(), rows, width, x, dy, mean, var, epsilon, partial, dgamma, dbeta);
  if (!c.has_out(2)) return;
  const View dx = l.Put(c.out(2), l.PlainFormat());
  l.Run(LayerNormGradient, l.type(), rows, width, x, gamma, mean, var, dy, epsilon, dx);
}

}  // namespace psgd::cudnn
