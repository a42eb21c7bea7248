#include "engine/ops/softmax_cross_entropy.h"

#include "absl/strings/str_cat.h"
#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddSoftmaxCrossEntropy(Graph* graph, const std::string& name, TensorId x,
                                                TensorId labels) {
  const Shape in = graph->shape(x);
  const bool images = in.size() == 4;
  const Shape wanted = images ? Shape{in[0], in[2], in[3]} : Shape{in[0]};
  if ((in.size() != 2 && !images) || graph->shape(labels) != wanted ||
      graph->tensors[labels].element != Element::kInt32) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": labels ", ShapeText(graph->shape(labels)), " do not fit logits ", ShapeText(in)));
  }
  const TensorId p = graph->AddTensor(name + ".probability", in);
  const TensorId result =
      graph->AddTensor({.name = name, .shape = {3}, .element = Element::kDouble, .external = true});
  graph->AddNode(name, SoftmaxCrossEntropy{}, {x, labels}, {p, result});
  return result;
}

absl::Status AddGradient(const SoftmaxCrossEntropy&, const Node& node, GradientTape* tape) {
  const TensorId dx = tape->NewGradient(node.inputs[0]);
  tape->graph().AddNode(node.name + ".backward", SoftmaxCrossEntropyBackward{},
                        {node.outputs[0], node.inputs[1], node.outputs[1]}, {dx});
  tape->Contribute(node.inputs[0], dx);
  return absl::OkStatus();
}

}  // namespace psgd
