#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

void Lower(const Activation& op, const Context& c) {
  Lowering& l = c.lowering;
  const View x = l.GetAsWritten(c.in(0)), y = l.Put(c.out(0), x.format);
  l.Run(ActivationForward, l.type(), op, l.elements(c.in(0)), x, y);
}

void Lower(const ActivationBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const View of = l.GetAsWritten(c.in(0)), dy = l.Get(c.in(1), of.format);
  const View dx = l.Put(c.out(0), of.format);
  l.Run(ActivationGradient, l.type(), op.forward, l.elements(c.in(0)), of, dy, dx);
}

}  // namespace psgd::cudnn
