#include "engine/ops/dense.h"

#include <variant>

#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddDense(Graph* graph, const std::string& name, TensorId x,
                                  TensorId weight, TensorId bias) {
  const Shape& in = graph->shape(x);
  const Shape& w = graph->shape(weight);
  if (in.size() != 2 || w.size() != 2 || in[1] != w[1]) {
    return InvalidArgumentError(name, ": weights ", ShapeText(w), " do not fit an input of ",
                                ShapeText(in), "; images must be flattened first");
  }
  if (bias != kNoTensor && graph->shape(bias) != Shape{w[0]}) {
    return InvalidArgumentError(name, ": a bias of ", ShapeText(graph->shape(bias)), " for ", w[0],
                                " outputs");
  }
  std::vector<TensorId> inputs = {x, weight};
  if (bias != kNoTensor) inputs.push_back(bias);
  return graph->AddResult(name, Dense{}, std::move(inputs), {in[0], w[0]});
}

void AddGradient(const Dense& op, const Node& node, GradientTape* tape) {
  TensorId dy = tape->Gradient(node.outputs[0]);
  const TensorId x = node.inputs[0], weight = node.inputs[1];
  Graph& graph = tape->graph();
  if (op.keep > 0) {
    const TensorId kept = tape->NewGradient(node.outputs[0]);
    graph.AddNode(node.name + ".keep_largest", KeepLargest{op.keep}, {dy}, {kept});
    dy = kept;
  }
  if (tape->Wanted(weight)) {
    tape->AddWeightsBackward(node, DenseBackwardWeights{}, dy);
  } else if (node.inputs.size() > 2 && tape->Wanted(node.inputs[2])) {
    AddRowBiasGradient(node, dy, node.inputs[2], tape);
  }
  if (tape->Wanted(x)) {
    tape->AddBackward(node, DenseBackwardData{}, {weight, dy}, x, ".backward_data");
  }
}

int KeepLargestGradients(int64_t count, Graph* graph) {
  int layers = 0;
  for (Node& node : graph->nodes) {
    auto* const dense = std::get_if<Dense>(&node.op);
    if (dense == nullptr || graph->shape(node.outputs[0])[1] <= count) continue;
    dense->keep = count;
    ++layers;
  }
  return layers;
}

}  // namespace psgd
