#include "engine/onednn/lower.h"
#include "engine/ops/element_loss_loops.h"

namespace psgd::onednn {
namespace {

// Those of input i, which the node may lack.
BufferId Targets(const Context& c, int i) {
  return c.has_in(i) ? c.lowering.GetPlain(c.in(i)).buffer : kNoBuffer;
}

const float* At(const Buffers& buffers, BufferId buffer) {
  return buffer == kNoBuffer ? nullptr : static_cast<const float*>(buffers[buffer]);
}

}  // namespace

void Lower(const ElementLoss& op, const Context& c) {
  Lowering& l = c.lowering;
  const LogitsLayout layout(l.graph().shape(c.in(0)));
  const BufferId x = l.GetPlain(c.in(0)).buffer, labels = l.Native(c.in(1)).buffer;
  const BufferId targets = Targets(c, 2), result = l.Native(c.out(0)).buffer;
  l.Call([=](const Buffers& buffers, const Step&) {
    ElementLossForward(op, layout, static_cast<const float*>(buffers[x]),
                       static_cast<const int32_t*>(buffers[labels]), At(buffers, targets),
                       static_cast<double*>(buffers[result]));
  });
}

void Lower(const ElementLossBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const LogitsLayout layout(l.graph().shape(c.in(0)));
  const BufferId x = l.GetPlain(c.in(0)).buffer, labels = l.Native(c.in(1)).buffer;
  const BufferId result = l.Native(c.in(2)).buffer, targets = Targets(c, 3);
  const BufferId dx = l.PutPlain(c.out(0)).buffer;
  l.Call([=, op = op.forward](const Buffers& buffers, const Step&) {
    ElementLossGradient(op, layout, static_cast<const float*>(buffers[x]),
                        static_cast<const int32_t*>(buffers[labels]), At(buffers, targets),
                        static_cast<const double*>(buffers[result]),
                        static_cast<float*>(buffers[dx]));
  });
}

}  // namespace psgd::onednn
