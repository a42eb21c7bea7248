#include "engine/ops/bias.h"

#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddBias(Graph* graph, const std::string& name, TensorId x, TensorId bias) {
  const Shape in = graph->shape(x);
  if (in.size() < 2 || graph->shape(bias) != Shape{in[1]}) {
    return InvalidArgumentError(name, ": a bias of ", ShapeText(graph->shape(bias)),
                                " does not fit ", ShapeText(in));
  }
  return graph->AddResult(name, Bias{}, {x, bias}, in);
}

void AddGradient(const Bias&, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  tape->Contribute(node.inputs[0], dy);
  if (tape->Wanted(node.inputs[1])) AddBiasGradient(node, dy, node.inputs[1], tape);
}

void AddBiasGradient(const Node& node, TensorId dy, TensorId bias, GradientTape* tape) {
  tape->AddBackward(node, BiasBackward{}, {dy}, bias, ".backward_bias");
}

}  // namespace psgd
