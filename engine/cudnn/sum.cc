#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

void Lower(const Sum&, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t count = l.elements(c.out(0));
  View sum = l.GetAsWritten(c.in(0));
  const View y = l.Put(c.out(0), sum.format);
  if (c.node.inputs.size() == 1) {
    l.Call([=, stream = l.stream(), bytes = count * TypeBytes(l.type())](const Buffers& b,
                                                                         const Step&) {
      return CheckCall(
          cudaMemcpyAsync(b[y.buffer], b[sum.buffer], bytes, cudaMemcpyDeviceToDevice, stream),
          "cudaMemcpyAsync");
    });
  }
  for (size_t i = 1; i < c.node.inputs.size(); ++i) {
    const View term = l.Get(c.in(static_cast<int>(i)), y.format);
    l.CallKernel([=, stream = l.stream(), type = l.type()](const Buffers& b, const Step&) {
      return AddPair(stream, type, count, b[sum.buffer], b[term.buffer], b[y.buffer]);
    });
    sum = y;
  }
}

}  // namespace psgd::cudnn
