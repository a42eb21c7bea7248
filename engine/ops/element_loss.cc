#include "engine/ops/element_loss.h"

#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddElementLoss(Graph* graph, const std::string& name,
                                        const ElementLoss& op, TensorId x, TensorId labels) {
  PSGD_RETURN_IF_ERROR(CheckLabels(*graph, name, x, labels));
  const TensorId result =
      graph->AddTensor({.name = name, .shape = {3}, .element = Element::kDouble, .external = true});
  graph->AddNode(name, op, {x, labels}, {result});
  return result;
}

void AddGradient(const ElementLoss& op, const Node& node, GradientTape* tape) {
  const TensorId x = node.inputs[0];
  tape->AddBackward(node, ElementLossBackward{op}, {x, node.inputs[1], node.outputs[0]}, x);
}

}  // namespace psgd
