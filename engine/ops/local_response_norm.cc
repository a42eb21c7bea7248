#include "engine/ops/local_response_norm.h"

#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddLocalResponseNorm(Graph* graph, const std::string& name,
                                              const LocalResponseNorm& op, TensorId x) {
  const Shape in = graph->shape(x);
  if (in.size() != 4 || op.size < 1 || op.size % 2 == 0 || !(op.k > 0) || !(op.alpha >= 0)) {
    return InvalidArgumentError(name, ": cannot normalise ", ShapeText(in), " over ", op.size,
                                " channels with alpha ", op.alpha, " and k ", op.k,
                                "; it needs images, an odd size, and a positive k");
  }
  const TensorId y = graph->AddTensor(name, in);
  const TensorId scale = graph->AddTensor(name + ".scale", in, Element::kOpaque);
  graph->AddNode(name, op, {x}, {y, scale});
  return y;
}

void AddGradient(const LocalResponseNorm& op, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  tape->AddBackward(node, LocalResponseNormBackward{op}, {node.inputs[0], node.outputs[1], dy},
                    node.inputs[0]);
}

}  // namespace psgd
