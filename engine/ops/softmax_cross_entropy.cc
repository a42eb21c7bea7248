#include "engine/ops/softmax_cross_entropy.h"

#include "engine/ops/rules.h"

namespace psgd {

absl::Status CheckLabels(const Graph& graph, const std::string& name, TensorId x, TensorId labels) {
  const Shape& in = graph.shape(x);
  const bool pixels = in.size() == 4;
  const Shape places = pixels ? Shape{in[0], in[2], in[3]} : Shape(in.begin(), in.end() - 1);
  if (in.size() >= 2 && in.size() <= 4 && graph.shape(labels) == places &&
      graph.tensors[labels].element == Element::kInt32) {
    return absl::OkStatus();
  }
  return InvalidArgumentError(name, ": labels ", ShapeText(graph.shape(labels)),
                              " do not fit logits ", ShapeText(in));
}

absl::StatusOr<TensorId> AddSoftmaxCrossEntropy(Graph* graph, const std::string& name,
                                                const SoftmaxCrossEntropy& op, TensorId x,
                                                TensorId labels) {
  PSGD_RETURN_IF_ERROR(CheckLabels(*graph, name, x, labels));
  if (!(op.label_smoothing >= 0 && op.label_smoothing < 1)) {
    return InvalidArgumentError(name, ": label smoothing of ", op.label_smoothing,
                                " is not in [0, 1)");
  }
  Shape pairs = graph->shape(labels);
  pairs.push_back(2);
  const TensorId softmax = graph->AddTensor(name + ".softmax", pairs, Element::kOpaque);
  const TensorId result =
      graph->AddTensor({.name = name, .shape = {3}, .element = Element::kDouble, .external = true});
  graph->AddNode(name, op, {x, labels}, {softmax, result});
  return result;
}

void AddGradient(const SoftmaxCrossEntropy& op, const Node& node, GradientTape* tape) {
  tape->AddBackward(node, SoftmaxCrossEntropyBackward{op},
                    {node.inputs[0], node.outputs[0], node.inputs[1], node.outputs[1]},
                    node.inputs[0]);
}

}  // namespace psgd
