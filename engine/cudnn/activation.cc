#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

void Lower(const Activation& op, const Context& c) {
  Lowering& l = c.lowering;
  const View x = l.GetAsWritten(c.in(0)), y = l.Put(c.out(0), x.format);
  l.CallKernel([=, stream = l.stream(), type = l.type(), count = l.elements(c.in(0))](
                   const Buffers& b, const Step&) {
    return ActivationForward(stream, type, op, count, b[x.buffer], b[y.buffer]);
  });
}

void Lower(const ActivationBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const View of = l.GetAsWritten(c.in(0)), dy = l.Get(c.in(1), of.format);
  const View dx = l.Put(c.out(0), of.format);
  l.CallKernel([=, forward = op.forward, stream = l.stream(), type = l.type(),
                count = l.elements(c.in(0))](const Buffers& b, const Step&) {
    return ActivationGradient(stream, type, forward, count, b[of.buffer], b[dy.buffer],
                              b[dx.buffer]);
  });
}

}  // namespace psgd::cudnn
