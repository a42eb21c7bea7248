#include "engine/ops/element_loss.h"

#include "engine/ops/rules.h"

namespace psgd {
namespace {

absl::Status CheckTargets(const Graph& graph, const std::string& name, TensorId x,
                          TensorId targets) {
  const Shape& in = graph.shape(x);
  if (in.size() == 2 && graph.shape(targets) == in &&
      graph.tensors[targets].element == Element::kReal) {
    return absl::OkStatus();
  }
  return InvalidArgumentError(name, ": targets ", ShapeText(graph.shape(targets)),
                              " do not fit outputs ", ShapeText(in));
}

}  // namespace

absl::StatusOr<TensorId> AddElementLoss(Graph* graph, const std::string& name,
                                        const ElementLoss& op, TensorId x, TensorId labels,
                                        TensorId targets) {
  PSGD_RETURN_IF_ERROR(CheckLabels(*graph, name, x, labels));
  std::vector<TensorId> inputs = {x, labels};
  if (targets != kNoTensor) {
    PSGD_RETURN_IF_ERROR(CheckTargets(*graph, name, x, targets));
    inputs.push_back(targets);
  }
  const TensorId result =
      graph->AddTensor({.name = name, .shape = {3}, .element = Element::kDouble, .external = true});
  graph->AddNode(name, op, std::move(inputs), {result});
  return result;
}

void AddGradient(const ElementLoss& op, const Node& node, GradientTape* tape) {
  const TensorId x = node.inputs[0];
  std::vector<TensorId> inputs = {x, node.inputs[1], node.outputs[0]};
  if (node.inputs.size() > 2) inputs.push_back(node.inputs[2]);
  tape->AddBackward(node, ElementLossBackward{op}, std::move(inputs), x);
}

}  // namespace psgd
