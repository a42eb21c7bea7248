#include "engine/ops/element_loss.h"

#include "absl/strings/str_cat.h"
#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddElementLoss(Graph* graph, const std::string& name,
                                        const ElementLoss& op, TensorId x, TensorId target) {
  if (graph->shape(x) != graph->shape(target)) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": targets ",
                                                   ShapeText(graph->shape(target)), " do not fit ",
                                                   ShapeText(graph->shape(x))));
  }
  if (!(op.beta > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": a beta of ", op.beta, " is not above 0"));
  }
  const TensorId result =
      graph->AddTensor({.name = name, .shape = {3}, .element = Element::kDouble, .external = true});
  graph->AddNode(name, op, {x, target}, {result});
  return result;
}

absl::Status AddGradient(const ElementLoss& op, const Node& node, GradientTape* tape) {
  const TensorId x = node.inputs[0];
  if (tape->Wanted(node.inputs[1])) {
    return absl::UnimplementedError(node.name + ": targets have no gradient");
  }
  const TensorId dx = tape->NewGradient(x);
  tape->graph().AddNode(node.name + ".backward", ElementLossBackward{op},
                        {x, node.inputs[1], node.outputs[0]}, {dx});
  tape->Contribute(x, dx);
  return absl::OkStatus();
}

}  // namespace psgd
