#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"
#include "engine/ops/logits_layout.h"

namespace psgd::cudnn {

// In the usual layout the classes of a place lie side by side: channels-last for images, else the
// last axis.
void Lower(const SoftmaxCrossEntropy& op, const Context& c) {
  Lowering& l = c.lowering;
  const LogitsLayout layout(l.shape(c.in(0)));
  const View x = l.GetUsual(c.in(0)), labels = l.Native(c.in(1));
  const BufferId softmax = l.PutOpaque(c.out(0), layout.places * sizeof(RowSoftmax));
  const View result = l.Native(c.out(1));
  const BufferId losses = l.Temporary(layout.places * sizeof(double));
  const BufferId correct = l.Temporary(layout.places * sizeof(int32_t));
  l.CallKernel([=, stream = l.stream(), type = l.type()](const Buffers& b, const Step&) {
    return SoftmaxLossForward(stream, type, op, layout.places, layout.classes, b[x.buffer],
                              static_cast<const int32_t*>(b[labels.buffer]),
                              static_cast<RowSoftmax*>(b[softmax]), static_cast<double*>(b[losses]),
                              static_cast<int32_t*>(b[correct]),
                              static_cast<double*>(b[result.buffer]));
  });
}

void Lower(const SoftmaxCrossEntropyBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const LogitsLayout layout(l.shape(c.in(0)));
  const View x = l.GetUsual(c.in(0)), labels = l.Native(c.in(2)), result = l.Native(c.in(3));
  const BufferId softmax = l.Opaque(c.in(1));
  const View dx = l.PutUsual(c.out(0));
  l.CallKernel([=, forward = op.forward, stream = l.stream(), type = l.type(), values = l.step()](
                   const Buffers& b, const Step&) {
    return SoftmaxLossGradient(stream, type, forward, layout.places, layout.classes, b[x.buffer],
                               static_cast<const RowSoftmax*>(b[softmax]),
                               static_cast<const int32_t*>(b[labels.buffer]),
                               static_cast<const double*>(b[result.buffer]), values, b[dx.buffer]);
  });
}

}  // namespace psgd::cudnn
