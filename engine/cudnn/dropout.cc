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
  l.CallKernel(
      [=, stream = l.stream(), type = l.type(), step = l.step()](const Buffers& b, const Step&) {
        return DropoutForward(stream, type, count, op.rate, key, step, b[x.buffer], b[y.buffer],
                              static_cast<uint8_t*>(b[mask]));
      });
}

void Lower(const DropoutBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const Format plain = {Layout::kPlain, l.type()};
  const int64_t count = l.elements(c.in(0));
  const View dy = l.Get(c.in(0), plain), dx = l.Put(c.out(0), plain);
  const BufferId mask = l.Opaque(c.in(1));
  l.CallKernel([=, stream = l.stream(), type = l.type()](const Buffers& b, const Step&) {
    return DropoutGradient(stream, type, count, op.rate, b[dy.buffer],
                           static_cast<const uint8_t*>(b[mask]), b[dx.buffer]);
  });
}

}  // namespace psgd::cudnn
