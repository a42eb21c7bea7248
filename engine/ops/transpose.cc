#include "engine/ops/transpose.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_join.h"
#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddTranspose(Graph* graph, const std::string& name, const Transpose& op,
                                      TensorId x) {
  const Shape& in = graph->shape(x);
  std::vector<int> axes(in.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (in.empty() || !std::is_permutation(axes.begin(), axes.end(), op.permutation.begin(),
                                         op.permutation.end())) {
    return InvalidArgumentError(name, ": (", absl::StrJoin(op.permutation, ", "),
                                ") is no order of the axes of ", ShapeText(in));
  }
  Shape shape;
  for (int axis : op.permutation) shape.push_back(in[axis]);
  return graph->AddResult(name, op, {x}, std::move(shape));
}

void AddGradient(const Transpose& op, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  Transpose inverse = op;
  for (size_t i = 0; i < op.permutation.size(); ++i) {
    inverse.permutation[op.permutation[i]] = static_cast<int>(i);
  }
  tape->AddBackward(node, std::move(inverse), {dy}, node.inputs[0]);
}

}  // namespace psgd
