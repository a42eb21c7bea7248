#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {
namespace {

// Channels-last images as a matrix with a column a channel.
struct Columns {
  int64_t rows, columns;
};
Columns ColumnsOf(const Shape& x) { return {ElementCount(x) / x[1], x[1]}; }

}  // namespace

void Lower(const BatchNorm& op, const Context& c) {
  Lowering& l = c.lowering;
  const auto [rows, columns] = ColumnsOf(l.shape(c.in(0)));
  const View x = l.GetUsual(c.in(0));
  const View gamma = l.Get(c.in(1), kPlainFloat), beta = l.Get(c.in(2), kPlainFloat);
  const View running_mean = l.Get(c.in(3), kPlainFloat), running_var = l.Get(c.in(4), kPlainFloat);
  const View y = l.PutUsual(c.out(0));
  const View mean = l.Put(c.out(1), kPlainFloat), var = l.Put(c.out(2), kPlainFloat);
  const View mean_delta = l.Put(c.out(3), kPlainFloat), var_delta = l.Put(c.out(4), kPlainFloat);
  const BufferId partial = l.Temporary(ColumnPartials(rows, columns, 2) * sizeof(float));
  l.CallKernel([=, stream = l.stream(), type = l.type(), rows = rows, columns = columns](
                   const Buffers& b, const Step&) {
    const BatchNormRunning running = {In(b, running_mean), In(b, running_var), Out(b, mean_delta),
                                      Out(b, var_delta)};
    return BatchNormStatistics(stream, type, rows, columns, b[x.buffer], op.momentum, running,
                               static_cast<float*>(b[partial]), Out(b, mean), Out(b, var));
  });
  l.CallKernel([=, stream = l.stream(), type = l.type(), rows = rows, columns = columns](
                   const Buffers& b, const Step&) {
    return BatchNormApply(stream, type, rows, columns, b[x.buffer], In(b, gamma), In(b, beta),
                          In(b, mean), In(b, var), op.epsilon, b[y.buffer]);
  });
}

void Lower(const BatchNormInference& op, const Context& c) {
  Lowering& l = c.lowering;
  const auto [rows, columns] = ColumnsOf(l.shape(c.in(0)));
  const View x = l.GetUsual(c.in(0));
  const View gamma = l.Get(c.in(1), kPlainFloat), beta = l.Get(c.in(2), kPlainFloat);
  const View mean = l.Get(c.in(3), kPlainFloat), var = l.Get(c.in(4), kPlainFloat);
  const View y = l.PutUsual(c.out(0));
  l.CallKernel([=, stream = l.stream(), type = l.type(), rows = rows, columns = columns](
                   const Buffers& b, const Step&) {
    return BatchNormApply(stream, type, rows, columns, b[x.buffer], In(b, gamma), In(b, beta),
                          In(b, mean), In(b, var), op.epsilon, b[y.buffer]);
  });
}

void Lower(const BatchNormBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const auto [rows, columns] = ColumnsOf(l.shape(c.in(0)));
  const float epsilon = op.forward.epsilon;
  const View x = l.GetUsual(c.in(0)), dy = l.GetUsual(c.in(4));
  const View gamma = l.Get(c.in(1), kPlainFloat), mean = l.Get(c.in(2), kPlainFloat);
  const View var = l.Get(c.in(3), kPlainFloat);
  const View dgamma = l.Put(c.out(0), kPlainFloat), dbeta = l.Put(c.out(1), kPlainFloat);
  const BufferId partial = l.Temporary(ColumnPartials(rows, columns, 2) * sizeof(float));
  l.CallKernel([=, stream = l.stream(), type = l.type(), rows = rows, columns = columns](
                   const Buffers& b, const Step&) {
    return BatchNormSums(stream, type, rows, columns, b[x.buffer], b[dy.buffer], In(b, mean),
                         In(b, var), epsilon, static_cast<float*>(b[partial]), Out(b, dgamma),
                         Out(b, dbeta));
  });
  if (!c.has_out(2)) return;
  const View dx = l.PutUsual(c.out(2));
  l.CallKernel([=, stream = l.stream(), type = l.type(), rows = rows, columns = columns](
                   const Buffers& b, const Step&) {
    return BatchNormGradient(stream, type, rows, columns, b[x.buffer], b[dy.buffer], In(b, gamma),
                             In(b, mean), In(b, var), In(b, dgamma), In(b, dbeta), epsilon,
                             b[dx.buffer]);
  });
}

}  // namespace psgd::cudnn
