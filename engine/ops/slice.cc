#include "engine/ops/slice.h"

#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddSlice(Graph* graph, const std::string& name, const Slice& op,
                                  int64_t length, TensorId x) {
  Shape shape = graph->shape(x);
  const bool has_axis = op.axis >= 0 && op.axis < static_cast<int>(shape.size());
  if (!has_axis || op.begin < 0 || length < 1 || length > shape[op.axis] - op.begin) {
    return InvalidArgumentError(name, ": ", ShapeText(shape), " has no ", length, " elements from ",
                                op.begin, " on along axis ", op.axis);
  }
  shape[op.axis] = length;
  return graph->AddResult(name, op, {x}, shape);
}

void AddGradient(const Slice& op, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  const TensorId dx = tape->NewGradient(node.inputs[0]);
  Pad zeros;
  zeros.before.resize(tape->graph().shape(dx).size());
  zeros.before[op.axis] = op.begin;
  tape->graph().AddNode(node.name + ".backward", zeros, {dy}, {dx});
  tape->Contribute(node.inputs[0], dx);
}

}  // namespace psgd
