#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

absl::Status Lower(const RowBias&, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t width = l.elements(c.in(1));
  const View x = l.Get(c.in(0), l.PlainFormat()), bias = l.Get(c.in(1), kPlainFloat);
  const View y = l.Put(c.out(0), l.PlainFormat());
  l.CallKernel([=, stream = l.stream(), type = l.type(), count = l.elements(c.in(0))](
                   const Buffers& b, const Step&) {
    return AddBias(stream, type, count, width, 1, b[x.buffer],
                   static_cast<const float*>(b[bias.buffer]), b[y.buffer]);
  });
  return absl::OkStatus();
}

absl::Status Lower(const RowBiasBackward&, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t width = l.elements(c.out(0)), rows = l.elements(c.in(0)) / width;
  const View dy = l.Get(c.in(0), l.PlainFormat()), db = l.Put(c.out(0), kPlainFloat);
  const BufferId partial = l.Temporary(ColumnPartials(rows, width) * sizeof(float));
  l.CallKernel([=, stream = l.stream(), type = l.type()](const Buffers& b, const Step&) {
    return SumColumns(stream, type, rows, width, b[dy.buffer], static_cast<float*>(b[partial]),
                      static_cast<float*>(b[db.buffer]));
  });
  return absl::OkStatus();
}

}  // namespace psgd::cudnn
