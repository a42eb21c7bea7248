#include "engine/ops/pad.h"

#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddPad(Graph* graph, const std::string& name, const Pad& op,
                                const Shape& after, TensorId x) {
  Shape shape = graph->shape(x);
  bool fits = op.before.size() == shape.size() && after.size() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i) {
    fits = op.before[i] >= 0 && after[i] >= 0;
    shape[i] += op.before[i] + after[i];
  }
  if (!fits) {
    return InvalidArgumentError(name, ": cannot pad ", ShapeText(graph->shape(x)), " by ",
                                ShapeText(op.before), " and ", ShapeText(after));
  }
  return graph->AddResult(name, op, {x}, shape);
}

void AddGradient(const Pad& op, const Node& node, GradientTape* tape) {
  TensorId gradient = tape->Gradient(node.outputs[0]);
  Graph& graph = tape->graph();
  const TensorId x = node.inputs[0];
  for (int axis = 0; axis < static_cast<int>(op.before.size()); ++axis) {
    Shape shape = graph.shape(gradient);
    if (shape[axis] == graph.shape(x)[axis]) continue;
    shape[axis] = graph.shape(x)[axis];
    const TensorId part = graph.AddTensor(graph.tensors[x].name + ".unpadded", shape);
    graph.AddNode(node.name + ".backward", Slice{axis, op.before[axis]}, {gradient}, {part});
    gradient = part;
  }
  tape->Contribute(x, gradient);
}

}  // namespace psgd
