#include "engine/ops/select.h"

#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddSelect(Graph* graph, const std::string& name, const Select& op,
                                   TensorId condition, TensorId a, TensorId b) {
  const Shape shape = graph->shape(condition);
  std::vector<TensorId> inputs = {condition};
  if (!op.a) inputs.push_back(a);
  if (!op.b) inputs.push_back(b);
  for (const TensorId input : inputs) {
    if (graph->shape(input) == shape) continue;
    return InvalidArgumentError(name, ": cannot choose elements of ",
                                ShapeText(graph->shape(input)), " by a condition of ",
                                ShapeText(shape));
  }
  return graph->AddResult(name, op, std::move(inputs), shape);
}

void AddGradient(const Select& op, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  const auto add = [&](const Select& chosen, TensorId of) {
    if (tape->Wanted(of)) tape->AddBackward(node, chosen, {node.inputs[0], dy}, of);
  };
  if (!op.a) add({.b = 0.0f}, node.inputs[op.place_of_a()]);
  if (!op.b) add({.a = 0.0f}, node.inputs[op.place_of_b()]);
}

}  // namespace psgd
