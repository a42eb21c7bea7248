#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

absl::Status Lower(const SoftmaxCrossEntropy&, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t rows = l.shape(c.in(0))[0], classes = l.shape(c.in(0))[1];
  const View x = l.GetUsual(c.in(0)), labels = l.Native(c.in(1));
  const View p = l.Put(c.out(0), kPlainFloat), result = l.Native(c.out(1));
  const BufferId losses = l.Temporary(rows * sizeof(double));
  const BufferId correct = l.Temporary(rows * sizeof(int32_t));
  l.CallKernel([=, stream = l.stream(), type = l.type()](const Buffers& b, const Step&) {
    return SoftmaxLossForward(stream, type, rows, classes, b[x.buffer],
                              static_cast<const int32_t*>(b[labels.buffer]),
                              static_cast<float*>(b[p.buffer]), static_cast<double*>(b[losses]),
                              static_cast<int32_t*>(b[correct]),
                              static_cast<double*>(b[result.buffer]));
  });
  return absl::OkStatus();
}

absl::Status Lower(const SoftmaxCrossEntropyBackward&, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t rows = l.shape(c.in(0))[0], classes = l.shape(c.in(0))[1];
  const View p = l.Get(c.in(0), kPlainFloat), labels = l.Native(c.in(1));
  const View result = l.Native(c.in(2)), dx = l.PutUsual(c.out(0));
  l.CallKernel([=, stream = l.stream(), type = l.type()](const Buffers& b, const Step&) {
    return SoftmaxLossGradient(stream, type, rows, classes,
                               static_cast<const float*>(b[p.buffer]),
                               static_cast<const int32_t*>(b[labels.buffer]),
                               static_cast<const double*>(b[result.buffer]), b[dx.buffer]);
  });
  return absl::OkStatus();
}

}  // namespace psgd::cudnn
