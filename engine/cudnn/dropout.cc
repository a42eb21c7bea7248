#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

// The mask numbers elements in row-major order, so both passes work on plain tensors.
void Lower(const Dropout& op, const Context& c) {
  Lowering& l = c.lowering;
  const Format plain = {Layout::kPlain, l.type()};
  const int64_t count = l.elements(c.in(0));
  const View x = l.Get(c.in(0), plain), y = l.Put(c.out(0), plain);
  const BufferId mask = l.PutOpaque(c.out(1), static_cast<size_t>(count));
  const PhiloxKey key = DropoutKey(op, c.options.dropout);
  l.Run(DropoutForward, l.type(), count, op.rate, key, l.step(), x, y, mask);
}

void Lower(const DropoutBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const Format plain = {Layout::kPlain, l.type()};
  const int64_t count = l.elements(c.in(0));
  const View dy = l.Get(c.in(0), plain), dx = l.Put(c.out(0), plain);
  const BufferId mask = l.Opaque(c.in(1));
  l.Run(DropoutGradient, l.type(), count, op.rate, dy, mask, dx);
}

}  // namespace psgd::cudnn
