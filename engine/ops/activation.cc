#include "engine/ops/activation.h"

#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddActivation(Graph* graph, const std::string& name, const Activation& op,
                                       TensorId x) {
  if (op.kind == Activation::Kind::kLeakyRelu && !(op.alpha >= 0)) {
    return InvalidArgumentError(name, ": a slope of ", op.alpha, " is negative");
  }
  if (op.kind == Activation::Kind::kClip && !(op.alpha <= op.beta)) {
    return InvalidArgumentError(name, ": cannot clip to at least ", op.alpha, " and at most ",
                                op.beta);
  }
  return graph->AddResult(name, op, {x}, graph->shape(x));
}

void AddGradient(const Activation& op, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  const TensorId from = op.FromOutput() ? node.outputs[0] : node.inputs[0];
  tape->AddBackward(node, ActivationBackward{op}, {from, dy}, node.inputs[0]);
}

}  // namespace psgd
