#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

void Lower(const RowBias&, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t width = l.elements(c.in(1));
  const View x = l.Get(c.in(0), l.PlainFormat()), bias = l.Get(c.in(1), kPlainFloat);
  const View y = l.Put(c.out(0), l.PlainFormat());
  l.Run(AddBias, l.type(), l.elements(c.in(0)), width, 1, x, bias, y);
}

void Lower(const RowBiasBackward&, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t width = l.elements(c.out(0)), rows = l.elements(c.in(0)) / width;
  PutColumnSums(c, rows, width, l.Get(c.in(0), l.PlainFormat()).buffer, c.out(0));
}

void AddBiasToRows(const Context& c, int64_t rows, int64_t columns, TensorId bias, bool relu,
                   const View& y) {
  Lowering& l = c.lowering;
  const auto kernel = relu ? AddBiasRelu : AddBias;
  l.Run(kernel, l.type(), rows * columns, columns, 1, y, l.Get(bias, kPlainFloat), y);
}

void PutColumnSums(const Context& c, int64_t rows, int64_t columns, BufferId matrix,
                   TensorId sums) {
  Lowering& l = c.lowering;
  const BufferId partial = l.Temporary(ColumnPartials(rows, columns, 1) * sizeof(float));
  const View to = l.Put(sums, kPlainFloat);
  l.Run(SumColumns, l.type(), rows, columns, matrix, partial, to);
}

}  // namespace psgd::cudnn
