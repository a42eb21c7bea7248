#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"
#include "engine/ops/logits_layout.h"

namespace psgd::cudnn {
namespace {

// Those of input i, which the node may lack.
BufferId Targets(const Context& c, int i) {
  return c.has_in(i) ? c.lowering.Get(c.in(i), kPlainFloat).buffer : kNoBuffer;
}

}  // namespace

void Lower(const ElementLoss& op, const Context& c) {
  Lowering& l = c.lowering;
  const LogitsLayout layout(l.shape(c.in(0)));
  const View x = l.GetUsual(c.in(0)), labels = l.Native(c.in(1)), result = l.Native(c.out(0));
  const BufferId targets = Targets(c, 2);
  const BufferId losses = l.Temporary(layout.places * sizeof(double));
  const BufferId correct = l.Temporary(layout.places * sizeof(int32_t));
  l.Run(ElementLossForward, l.type(), op, layout.places, layout.classes, x, labels, targets, losses,
        correct, result);
}

void Lower(const ElementLossBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const LogitsLayout layout(l.shape(c.in(0)));
  const View x = l.GetUsual(c.in(0)), labels = l.Native(c.in(1));
  const View result = l.Native(c.in(2)), dx = l.PutUsual(c.out(0));
  const BufferId targets = Targets(c, 3);
  l.Run(ElementLossGradient, l.type(), op.forward, layout.places, layout.classes, x, labels,
        targets, result, l.step(), dx);
}

}  // namespace psgd::cudnn
