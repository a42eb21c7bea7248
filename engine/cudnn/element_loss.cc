#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"
#include "engine/ops/logits_layout.h"

namespace psgd::cudnn {
namespace {

// Those of input i, which the node may lack.
BufferId Targets(const Context& c, int i) {
  return c.has_in(i) ? c.lowering.Get(c.in(i), kPlainFloat).buffer : kNoBuffer;
}

const float* At(const Buffers& b, BufferId buffer) {
  return buffer == kNoBuffer ? nullptr : static_cast<const float*>(b[buffer]);
}

}  // namespace

void Lower(const ElementLoss& op, const Context& c) {
  Lowering& l = c.lowering;
  const LogitsLayout layout(l.shape(c.in(0)));
  const View x = l.GetUsual(c.in(0)), labels = l.Native(c.in(1)), result = l.Native(c.out(0));
  const BufferId targets = Targets(c, 2);
  const BufferId losses = l.Temporary(layout.places * sizeof(double));
  const BufferId correct = l.Temporary(layout.places * sizeof(int32_t));
  l.CallKernel([=, stream = l.stream(), type = l.type()](const Buffers& b, const Step&) {
    return ElementLossForward(stream, type, op, layout.places, layout.classes, b[x.buffer],
                              static_cast<const int32_t*>(b[labels.buffer]), At(b, targets),
                              static_cast<double*>(b[losses]), static_cast<int32_t*>(b[correct]),
                              static_cast<double*>(b[result.buffer]));
  });
}

void Lower(const ElementLossBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const LogitsLayout layout(l.shape(c.in(0)));
  const View x = l.GetUsual(c.in(0)), labels = l.Native(c.in(1));
  const View result = l.Native(c.in(2)), dx = l.PutUsual(c.out(0));
  const BufferId targets = Targets(c, 3);
  l.CallKernel([=, forward = op.forward, stream = l.stream(), type = l.type(), values = l.step()](
                   const Buffers& b, const Step&) {
    return ElementLossGradient(stream, type, forward, layout.places, layout.classes, b[x.buffer],
                               static_cast<const int32_t*>(b[labels.buffer]), At(b, targets),
                               static_cast<const double*>(b[result.buffer]), values, b[dx.buffer]);
  });
}

}  // namespace psgd::cudnn
