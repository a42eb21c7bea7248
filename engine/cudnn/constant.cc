#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

void Lower(const Constant& op, const Context& c) {
  Lowering& l = c.lowering;
  const View y = l.PutOnce(c.out(0));
  // The launch owns the values, so they live until an asynchronous copy is done.
  l.CallOnce([=, values = op.values, stream = l.stream()](const Buffers& b, const Step&) {
    return CheckCall(cudaMemcpyAsync(b[y.buffer], values->data(), values->size() * sizeof(float),
                                     cudaMemcpyHostToDevice, stream),
                     "cudaMemcpyAsync");
  });
}

}  // namespace psgd::cudnn
