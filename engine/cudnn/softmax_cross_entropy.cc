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
  l.Run(SoftmaxLossForward, l.type(), op, layout.places, layout.classes, x, labels, softmax, losses,
        correct, result);
}

void Lower(const SoftmaxCrossEntropyBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const LogitsLayout layout(l.shape(c.in(0)));
  const View x = l.GetUsual(c.in(0)), labels = l.Native(c.in(2)), result = l.Native(c.in(3));
  const BufferId softmax = l.Opaque(c.in(1));
  const View dx = l.PutUsual(c.out(0));
  l.Run(SoftmaxLossGradient, l.type(), op.forward, layout.places, layout.classes, x, softmax,
        labels, result, l.step(), dx);
}

}  // namespace psgd::cudnn
