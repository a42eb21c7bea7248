// Ops that no primitive computes, and that take little time beside the layers: the loops of the
// reference backend compute them, in fp32 on one thread.
#include "engine/onednn/lower.h"
#include "engine/reference/compute.h"

namespace psgd::onednn {
namespace {

template <typename Op>
void LowerToLoops(const Op& op, const Context& c) {
  std::vector<BufferId> inputs, outputs;
  for (TensorId tensor : c.node.inputs) inputs.push_back(c.lowering.GetPlain(tensor).buffer);
  for (TensorId tensor : c.node.outputs) outputs.push_back(c.lowering.Native(tensor).buffer);
  c.lowering.Call([=, &graph = c.lowering.graph(), &node = c.node, dropout = c.dropout](
                      const Buffers& buffers, const Step& step) {
    std::vector<void*> in, out;
    for (BufferId buffer : inputs) in.push_back(buffers[buffer]);
    for (BufferId buffer : outputs) out.push_back(buffers[buffer]);
    reference::Compute(op, reference::Operands<float>(graph, node, in, out, step, dropout));
  });
}

}  // namespace

#define PSGD_LOWER(Op) \
  void Lower(const Op& op, const Context& c) { LowerToLoops(op, c); }
PSGD_LOWER(AdaptiveAveragePool)
PSGD_LOWER(AdaptiveAveragePoolBackward)
PSGD_LOWER(Constant)
PSGD_LOWER(ElementLoss)
PSGD_LOWER(ElementLossBackward)
PSGD_LOWER(Lengths)
PSGD_LOWER(Pad)
PSGD_LOWER(SoftmaxCrossEntropy)
PSGD_LOWER(SoftmaxCrossEntropyBackward)
#undef PSGD_LOWER

}  // namespace psgd::onednn
