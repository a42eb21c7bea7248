#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

absl::Status Lower(const Constant& op, const Context& c) {
  Lowering& l = c.lowering;
  const View y = l.PutOnce(c.out(0));
  // The values live as long as this launch, so that the copy may go on after it.
  l.CallOnce([=, values = op.values, stream = l.stream()](const Buffers& b, const Step&) {
    return CheckCall(cudaMemcpyAsync(b[y.buffer], values->data(), values->size() * sizeof(float),
                                     cudaMemcpyHostToDevice, stream),
                     "cudaMemcpyAsync");
  });
  return absl::OkStatus();
}

}  // namespace psgd::cudnn
