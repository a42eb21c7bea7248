#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

absl::Status Lower(const ElementLoss& op, const Context& c) {
  Lowering& l = c.lowering;
  const View x = l.Get(c.in(0), l.PlainFormat()), target = l.Get(c.in(1), kPlainFloat);
  const View result = l.Native(c.out(0));
  const BufferId partial = l.Temporary(kElementLossPartials * sizeof(double));
  l.CallKernel([=, stream = l.stream(), type = l.type(), count = l.elements(c.in(0))](
                   const Buffers& b, const Step&) {
    return ElementLossForward(
        stream, type, op, count, b[x.buffer], static_cast<const float*>(b[target.buffer]),
        static_cast<double*>(b[partial]), static_cast<double*>(b[result.buffer]));
  });
  return absl::OkStatus();
}

absl::Status Lower(const ElementLossBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const View x = l.Get(c.in(0), l.PlainFormat()), target = l.Get(c.in(1), kPlainFloat);
  const View result = l.Native(c.in(2)), dx = l.Put(c.out(0), l.PlainFormat());
  l.CallKernel([=, forward = op.forward, stream = l.stream(), type = l.type(), values = l.step(),
                count = l.elements(c.in(0))](const Buffers& b, const Step&) {
    return ElementLossGradient(stream, type, forward, count, b[x.buffer],
                               static_cast<const float*>(b[target.buffer]),
                               static_cast<const double*>(b[result.buffer]), values, b[dx.buffer]);
  });
  return absl::OkStatus();
}

}  // namespace psgd::cudnn
