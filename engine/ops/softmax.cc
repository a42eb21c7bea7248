#include "engine/ops/softmax.h"

#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddSoftmax(Graph* graph, const std::string& name, const Softmax& op,
                                    TensorId x, TensorId lengths) {
  const Shape in = graph->shape(x);
  const size_t least_rank = lengths != kNoTensor ? 3 : op.causal ? 2 : 1;
  if (in.size() < least_rank) {
    return InvalidArgumentError(name, ": ", ShapeText(in), " has too few axes, at least ",
                                least_rank, " are needed");
  }
  std::vector<TensorId> inputs = {x};
  if (lengths != kNoTensor) {
    if (graph->shape(lengths) != Shape{in[0]} ||
        graph->tensors[lengths].element != Element::kInt32) {
      return InvalidArgumentError(name, ": lengths ", ShapeText(graph->shape(lengths)),
                                  " do not fit ", ShapeText(in));
    }
    inputs.push_back(lengths);
  }
  return graph->AddResult(name, op, std::move(inputs), in);
}

void AddGradient(const Softmax& op, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  tape->AddBackward(node, SoftmaxBackward{op}, {node.outputs[0], dy}, node.inputs[0]);
}

}  // namespace psgd
