#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

void Lower(const Relu&, const Context& c) {
  Lowering& l = c.lowering;
  const View x = l.GetAsWritten(c.in(0)), y = l.Put(c.out(0), x.format);
  l.CallKernel([=, stream = l.stream(), type = l.type(), count = l.elements(c.in(0))](
                   const Buffers& b, const Step&) {
    return ReluForward(stream, type, count, b[x.buffer], b[y.buffer]);
  });
}

void Lower(const ReluBackward&, const Context& c) {
  Lowering& l = c.lowering;
  const View y = l.GetAsWritten(c.in(0)), dy = l.Get(c.in(1), y.format);
  const View dx = l.Put(c.out(0), y.format);
  l.CallKernel([=, stream = l.stream(), type = l.type(), count = l.elements(c.in(0))](
                   const Buffers& b, const Step&) {
    return ReluGradient(stream, type, count, b[y.buffer], b[dy.buffer], b[dx.buffer]);
  });
}

}  // namespace psgd::cudnn
