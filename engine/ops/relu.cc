#include "engine/ops/relu.h"

#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddRelu(Graph* graph, const std::string& name, TensorId x) {
  return graph->AddResult(name, Relu{}, {x}, graph->shape(x));
}

void AddGradient(const Relu&, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  tape->AddBackward(node, ReluBackward{}, {node.outputs[0], dy}, node.inputs[0]);
}

}  // namespace psgd
