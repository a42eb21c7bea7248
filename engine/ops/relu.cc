#include "engine/ops/relu.h"

#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddRelu(Graph* graph, const std::string& name, TensorId x) {
  const TensorId y = graph->AddTensor(name, graph->shape(x));
  graph->AddNode(name, Relu{}, {x}, {y});
  return y;
}

absl::Status AddGradient(const Relu&, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  if (dy == kNoTensor) return absl::OkStatus();
  const TensorId dx = tape->NewGradient(node.inputs[0]);
  tape->graph().AddNode(node.name + ".backward", ReluBackward{}, {node.outputs[0], dy}, {dx});
  tape->Contribute(node.inputs[0], dx);
  return absl::OkStatus();
}

}  // namespace psgd
