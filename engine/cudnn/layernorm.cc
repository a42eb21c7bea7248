#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

namespace {

// A tensor of any rank as rows of its last axis.
struct Rows {
  explicit Rows(const Shape& x) : count(ElementCount(x) / x.back()), width(x.back()) {}

  int64_t count, width;
};

}  // namespace

void Lower(const LayerNorm& op, const Context& c) {
  Lowering& l = c.lowering;
  const Rows rows(l.shape(c.in(0)));
  const View x = l.Get(c.in(0), l.PlainFormat()), y = l.Put(c.out(0), l.PlainFormat());
  const View gamma = l.Get(c.in(1), kPlainFloat), beta = l.Get(c.in(2), kPlainFloat);
  const View mean = l.Put(c.out(1), kPlainFloat), var = l.Put(c.out(2), kPlainFloat);
  l.CallKernel([=, stream = l.stream(), type = l.type()](const Buffers& b, const Step&) {
    return LayerNormForward(stream, type, rows.count, rows.width, b[x.buffer], In(b, gamma),
                            In(b, beta), op.epsilon, b[y.buffer], Out(b, mean), Out(b, var));
  });
}

void Lower(const LayerNormBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const Rows rows(l.shape(c.in(0)));
  const float epsilon = op.forward.epsilon;
  const View x = l.Get(c.in(0), l.PlainFormat()), dy = l.Get(c.in(4), l.PlainFormat());
  const View gamma = l.Get(c.in(1), kPlainFloat);
  const View mean = l.Get(c.in(2), kPlainFloat), var = l.Get(c.in(3), kPlainFloat);
  const View dgamma = l.Put(c.out(0), kPlainFloat), dbeta = l.Put(c.out(1), kPlainFloat);
  const BufferId partial = l.Temporary(ColumnPartials(rows.count, rows.width, 2) * sizeof(float));
  l.CallKernel([=, stream = l.stream(), type = l.type()](const Buffers& b, const Step&) {
    return LayerNormSums(stream, type, rows.count, rows.width, b[x.buffer], b[dy.buffer],
                         In(b, mean), In(b, var), epsilon, static_cast<float*>(b[partial]),
                         Out(b, dgamma), Out(b, dbeta));
  });
  if (!c.has_out(2)) return;
  const View dx = l.Put(c.out(2), l.PlainFormat());
  l.CallKernel([=, stream = l.stream(), type = l.type()](const Buffers& b, const Step&) {
    return LayerNormGradient(stream, type, rows.count, rows.width, b[x.buffer], In(b, gamma),
                             In(b, mean), In(b, var), b[dy.buffer], epsilon, b[dx.buffer]);
  });
}

}  // namespace psgd::cudnn
