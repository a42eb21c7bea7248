#include "engine/ops/activation.h"

#include "absl/strings/str_cat.h"
#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddActivation(Graph* graph, const std::string& name, const Activation& op,
                                       TensorId x) {
  if (!(op.slope >= 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": a slope of ", op.slope, " is negative"));
  }
  const TensorId y = graph->AddTensor(name, graph->shape(x));
  graph->AddNode(name, op, {x}, {y});
  return y;
}

void AddGradient(const Activation& op, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  const bool of_input = op.kind == Activation::Kind::kGelu;
  tape->AddBackward(node, ActivationBackward{op}, {of_input ? node.inputs[0] : node.outputs[0], dy},
                    node.inputs[0]);
}

}  // namespace psgd
