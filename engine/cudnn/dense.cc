#include "engine/cudnn/blas.h"

namespace psgd::cudnn {
void Lower(const Dense&, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t batch = l.shape(c.in(0))[0], inputs = l.shape(c.in(0))[1];
  const int64_t outputs = l.shape(c.in(1))[0];
  const View x = l.GetUsual(c.in(0)), w = l.GetUsual(c.in(1));
  const View y = l.PutUsual(c.out(0));
  const Matrix a = {x, batch, inputs}, b = {w, outputs, inputs, true}, out = {y, batch, outputs};
  if (c.has_in(2)) return MultiplyAndAdd(c, a, b, out, c.in(2));
  Multiply(c, a, b, out);
}

void Lower(const DenseBackwardData&, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t batch = l.shape(c.in(1))[0], outputs = l.shape(c.in(0))[0];
  const int64_t inputs = l.shape(c.in(0))[1];
  const View w = l.GetUsual(c.in(0)), dy = l.GetUsual(c.in(1));
  Multiply(c, {dy, batch, outputs}, {w, outputs, inputs}, {l.PutUsual(c.out(0)), batch, inputs});
}

void Lower(const DenseBackwardWeights&, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t batch = l.shape(c.in(0))[0], inputs = l.shape(c.in(0))[1];
  const int64_t outputs = l.shape(c.in(1))[1];
  const View x = l.GetUsual(c.in(0)), dy = l.GetUsual(c.in(1));
  // Writes fp32 directly, because the sums are in fp32 anyway.
  const Matrix a = {dy, batch, outputs, true}, b = {x, batch, inputs};
  const Matrix out = {l.Put(c.out(0), kPlainFloat), outputs, inputs};
  if (c.has_out(1)) return MultiplyAndSum(c, a, b, out, c.out(1));
  Multiply(c, a, b, out);
}

}  // namespace psgd::cudnn
