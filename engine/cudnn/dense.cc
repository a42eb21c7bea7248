#include "engine/cudnn/blas.h"
#include "engine/cudnn/kernels.h"

namespace psgd::cudnn {
absl::Status Lower(const Dense&, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t batch = l.shape(c.in(0))[0], inputs = l.shape(c.in(0))[1];
  const int64_t outputs = l.shape(c.in(1))[0];
  const View x = l.GetUsual(c.in(0)), w = l.GetUsual(c.in(1));
  const View y = l.PutUsual(c.out(0));
  Multiply(c, {x, batch, inputs}, {w, outputs, inputs, true}, {y, batch, outputs});
  if (!c.has_in(2)) return absl::OkStatus();
  const View bias = l.Get(c.in(2), kPlainFloat);
  l.CallKernel([=, stream = l.stream(), type = l.type()](const Buffers& b, const Step&) {
    return AddBias(stream, type, batch * outputs, outputs, 1, b[y.buffer],
                   static_cast<const float*>(b[bias.buffer]), b[y.buffer]);
  });
  return absl::OkStatus();
}

absl::Status Lower(const DenseBackwardData&, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t batch = l.shape(c.in(1))[0], outputs = l.shape(c.in(0))[0];
  const int64_t inputs = l.shape(c.in(0))[1];
  const View w = l.GetUsual(c.in(0)), dy = l.GetUsual(c.in(1));
  Multiply(c, {dy, batch, outputs}, {w, outputs, inputs}, {l.PutUsual(c.out(0)), batch, inputs});
  return absl::OkStatus();
}

absl::Status Lower(const DenseBackwardWeights&, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t batch = l.shape(c.in(0))[0], inputs = l.shape(c.in(0))[1];
  const int64_t outputs = l.shape(c.in(1))[1];
  const View x = l.GetUsual(c.in(0)), dy = l.GetUsual(c.in(1));
  // Writes fp32 directly, because the sums are in fp32 anyway.
  Multiply(c, {dy, batch, outputs, true}, {x, batch, inputs},
           {l.Put(c.out(0), kPlainFloat), outputs, inputs});
  if (!c.has_out(1)) return absl::OkStatus();
  const BufferId partial = l.Temporary(ColumnPartials(batch, outputs) * sizeof(float));
  const View db = l.Put(c.out(1), kPlainFloat);
  l.CallKernel([=, stream = l.stream(), type = l.type()](const Buffers& b, const Step&) {
    return SumColumns(stream, type, batch, outputs, b[dy.buffer], static_cast<float*>(b[partial]),
                      static_cast<float*>(b[db.buffer]));
  });
  return absl::OkStatus();
}

}  // namespace psgd::cudnn
