#include "engine/ops/mul.h"

#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddMul(Graph* graph, const std::string& name, TensorId a, TensorId b) {
  if (graph->shape(a) != graph->shape(b)) {
    return InvalidArgumentError(name, ": cannot multiply ", ShapeText(graph->shape(a)), " and ",
                                ShapeText(graph->shape(b)));
  }
  return graph->AddResult(name, Mul{}, {a, b}, graph->shape(a));
}

void AddGradient(const Mul&, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  for (int i = 0; i < 2; ++i) {
    if (!tape->Wanted(node.inputs[i])) continue;
    tape->AddBackward(node, Mul{}, {dy, node.inputs[1 - i]}, node.inputs[i]);
  }
}

}  // namespace psgd
