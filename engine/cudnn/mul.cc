#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

void Lower(const Mul&, const Context& c) {
  Lowering& l = c.lowering;
  const View left = l.GetAsWritten(c.in(0)), right = l.Get(c.in(1), left.format);
  const View y = l.Put(c.out(0), left.format);
  l.Run(MultiplyPair, l.type(), l.elements(c.out(0)), left, right, y);
}

}  // namespace psgd::cudnn
