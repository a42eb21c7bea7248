#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

// Both shapes number elements in row-major order, so channels-last images are converted first.
void Lower(const Reshape&, const Context& c) {
  Lowering& l = c.lowering;
  const View x = l.Get(c.in(0), {Layout::kPlain, l.type()});
  if (!l.external(c.out(0))) {
    l.PutShared(c.out(0), x);
    return;
  }
  const View y = l.Put(c.out(0), x.format);
  const size_t bytes = l.elements(c.out(0)) * TypeBytes(l.type());
  l.Call([=, stream = l.stream()](const Buffers& b, const Step&) {
    return CheckCall(
        cudaMemcpyAsync(b[y.buffer], b[x.buffer], bytes, cudaMemcpyDeviceToDevice, stream),
        "cudaMemcpyAsync");
  });
}

}  // namespace psgd::cudnn
