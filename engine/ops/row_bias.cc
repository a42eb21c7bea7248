#include "engine/ops/row_bias.h"

#include <algorithm>

#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddRowBias(Graph* graph, const std::string& name, TensorId x,
                                    TensorId bias) {
  const Shape in = graph->shape(x);
  const Shape& b = graph->shape(bias);
  if (b.empty() || b.size() > in.size() || !std::equal(b.rbegin(), b.rend(), in.rbegin())) {
    return InvalidArgumentError(name, ": ", ShapeText(b), " are not the last axes of ",
                                ShapeText(in));
  }
  return graph->AddResult(name, RowBias{}, {x, bias}, in);
}

void AddGradient(const RowBias&, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  tape->Contribute(node.inputs[0], dy);
  if (tape->Wanted(node.inputs[1])) AddRowBiasGradient(node, dy, node.inputs[1], tape);
}

void AddRowBiasGradient(const Node& node, TensorId dy, TensorId bias, GradientTape* tape) {
  tape->AddBackward(node, RowBiasBackward{}, {dy}, bias, ".backward_bias");
}

}  // namespace psgd
