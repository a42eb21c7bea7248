#include "engine/ops/reshape.h"

#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddReshape(Graph* graph, const std::string& name, TensorId x,
                                    Shape shape) {
  if (shape.empty() || ElementCount(shape) != ElementCount(graph->shape(x))) {
    return InvalidArgumentError(name, ": cannot reshape ", ShapeText(graph->shape(x)), " to ",
                                ShapeText(shape));
  }
  return graph->AddResult(name, Reshape{}, {x}, std::move(shape));
}

void AddGradient(const Reshape&, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  tape->AddBackward(node, Reshape{}, {dy}, node.inputs[0]);
}

}  // namespace psgd
