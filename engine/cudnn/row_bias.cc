#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

void Lower(const RowBias&, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t width = l.elements(c.in(1));
  const View x = l.Get(c.in(0), l.PlainFormat()), bias = l.Get(c.in(1), kPlainFloat);
  const View y = l.Put(c.out(0), l.PlainFormat());
  l.CallKernel([=, stream = l.stream(), type = l.type(), count = l.elements(c.in(0))](
                   const Buffers& b, const Step&) {
    return AddBias(stream, type, count, width, 1, b[x.buffer],
                   static_cast<const float*>(b[bias.buffer]), b[y.buffer]);
  });
}

void Lower(const RowBiasBackward&, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t width = l.elements(c.out(0)), rows = l.elements(c.in(0)) / width;
  PutColumnSums(c, rows, width, l.Get(c.in(0), l.PlainFormat()).buffer, c.out(0));
}

void AddBiasToRows(const Context& c, int64_t rows, int64_t columns, TensorId bias, const View& y) {
  Lowering& l = c.lowering;
  const BufferId values = l.Get(bias, kPlainFloat).buffer;
  l.CallKernel([=, stream = l.stream(), type = l.type()](const Buffers& b, const Step&) {
    return AddBias(stream, type, rows * columns, columns, 1, b[y.buffer],
                   static_cast<const float*>(b[values]), b[y.buffer]);
  });
}

void PutColumnSums(const Context& c, int64_t rows, int64_t columns, BufferId matrix,
                   TensorId sums) {
  Lowering& l = c.lowering;
  const BufferId partial = l.Temporary(ColumnPartials(rows, columns, 1) * sizeof(float));
  const BufferId to = l.Put(sums, kPlainFloat).buffer;
  l.CallKernel([=, stream = l.stream(), type = l.type()](const Buffers& b, const Step&) {
    return SumColumns(stream, type, rows, columns, b[matrix], static_cast<float*>(b[partial]),
                      static_cast<float*>(b[to]));
  });
}

}  // namespace psgd::cudnn
