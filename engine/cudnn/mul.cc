#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

void Lower(const Mul&, const Context& c) {
  Lowering& l = c.lowering;
  const View left = l.GetAsWritten(c.in(0)), right = l.Get(c.in(1), left.format);
  const View y = l.Put(c.out(0), left.format);
  l.CallKernel([=, stream = l.stream(), type = l.type(), count = l.elements(c.out(0))](
                   const Buffers& b, const Step&) {
    return MultiplyPair(stream, type, count, b[left.buffer], b[right.buffer], b[y.buffer]);
  });
}

}  // namespace psgd::cudnn
