#include "engine/ops/upsample.h"

#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddUpsample(Graph* graph, const std::string& name, const Upsample& op,
                                     TensorId x) {
  const Shape in = graph->shape(x);
  if (in.size() != 4 || op.factor < 1) {
    return InvalidArgumentError(name, ": cannot upsample ", ShapeText(in), " by ", op.factor);
  }
  return graph->AddResult(name, op, {x}, {in[0], in[1], in[2] * op.factor, in[3] * op.factor});
}

void AddGradient(const Upsample& op, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  tape->AddBackward(node, UpsampleBackward{op}, {dy}, node.inputs[0]);
}

}  // namespace psgd
