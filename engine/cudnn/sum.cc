#include <variant>
#include <vector>

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
    l.Run(AddPair, l.type(), count, sum, term, y);
    sum = y;
  }
}

void LowerSumChain(const Chain& chain, const Context& c) {
  if (!c.IsLastOf(chain)) return;
  Lowering& l = c.lowering;
  l.SetWork(chain.nodes);
  const std::vector<TensorId>& terms = l.node(chain.nodes.front()).inputs;
  const int64_t count = l.elements(c.out(0));
  if (std::holds_alternative<Relu>(c.node.op)) {
    const View a = l.GetAsWritten(terms[0]), b = l.Get(terms[1], a.format);
    const View y = l.Put(c.out(0), a.format);
    l.Run(AddReluForward, l.type(), count, a, b, y);
    return;
  }
  const View y = l.GetAsWritten(c.in(0));
  const View a = l.Get(terms[0], y.format), b = l.Get(terms[1], y.format);
  const View dx = l.Put(c.out(0), y.format);
  l.Run(AddReluGradient, l.type(), count, y, a, b, dx);
}

}  // namespace psgd::cudnn
