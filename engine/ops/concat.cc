#include "engine/ops/concat.h"

#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddConcat(Graph* graph, const std::string& name, const Concat& op,
                                   std::vector<TensorId> parts) {
  if (parts.empty()) return absl::InvalidArgumentError(name + ": nothing to concatenate");
  Shape whole = graph->shape(parts[0]);
  if (op.axis < 0 || op.axis >= static_cast<int>(whole.size())) {
    return InvalidArgumentError(name, ": ", ShapeText(whole), " has no axis ", op.axis);
  }
  whole[op.axis] = 0;
  for (TensorId part : parts) {
    Shape rest = graph->shape(part);
    if (rest.size() == whole.size()) rest[op.axis] = whole[op.axis];
    if (rest != whole) {
      return InvalidArgumentError(name, ": cannot concatenate ", ShapeText(graph->shape(parts[0])),
                                  " and ", ShapeText(graph->shape(part)), " along axis ", op.axis);
    }
    whole[op.axis] += graph->shape(part)[op.axis];
  }
  return graph->AddResult(name, op, std::move(parts), whole);
}

void AddGradient(const Concat& op, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  int64_t begin = 0;
  for (TensorId part : node.inputs) {
    const int64_t length = tape->graph().shape(part)[op.axis];
    if (tape->Wanted(part)) {
      tape->AddBackward(node, Slice{op.axis, begin}, {dy}, part);
    }
    begin += length;
  }
}

}  // namespace psgd
