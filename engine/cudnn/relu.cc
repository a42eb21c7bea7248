#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

void Lower(const Relu&, const Context& c) {
  Lowering& l = c.lowering;
  const View x = l.GetAsWritten(c.in(0)), y = l.Put(c.out(0), x.format);
  l.Run(ReluForward, l.type(), l.elements(c.in(0)), x, y);
}

void Lower(const ReluBackward&, const Context& c) {
  Lowering& l = c.lowering;
  const View y = l.GetAsWritten(c.in(0)), dy = l.Get(c.in(1), y.format);
  const View dx = l.Put(c.out(0), y.format);
  l.Run(ReluGradient, l.type(), l.elements(c.in(0)), y, dy, dx);
}

}  // namespace psgd::cudnn
