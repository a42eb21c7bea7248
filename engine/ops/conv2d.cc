#include "engine/ops/conv2d.h"

#include "absl/strings/str_cat.h"
#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddConv2d(Graph* graph, const std::string& name, const Conv2d& op,
                                   TensorId x, TensorId weight, TensorId bias) {
  const Shape& in = graph->shape(x);
  const Shape& w = graph->shape(weight);
  if (in.size() != 4 || w.size() != 4 || op.groups < 1 || in[1] != w[1] * op.groups ||
      w[0] % op.groups != 0 || w[2] != op.window.kernel.height || w[3] != op.window.kernel.width) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": weights ", ShapeText(w), " in ",
                                                   op.groups, " groups do not fit an input of ",
                                                   ShapeText(in)));
  }
  if (bias != kNoTensor && graph->shape(bias) != Shape{w[0]}) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": a bias of ", ShapeText(graph->shape(bias)), " for ", w[0], " output channels"));
  }
  const auto image = SlideOver(op.window, in[2], in[3]);
  if (!image.ok()) return Annotate(image.status(), name);
  const TensorId y = graph->AddTensor(name, {in[0], w[0], image->height, image->width});
  std::vector<TensorId> inputs = {x, weight};
  if (bias != kNoTensor) inputs.push_back(bias);
  graph->AddNode(name, op, std::move(inputs), {y});
  return y;
}

absl::Status AddGradient(const Conv2d& op, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  if (dy == kNoTensor) return absl::OkStatus();
  const TensorId x = node.inputs[0], weight = node.inputs[1];
  Graph& graph = tape->graph();
  if (tape->Wanted(weight)) {
    std::vector<TensorId> outputs = {tape->NewGradient(weight)};
    tape->Contribute(weight, outputs[0]);
    if (node.inputs.size() > 2) {
      outputs.push_back(tape->NewGradient(node.inputs[2]));
      tape->Contribute(node.inputs[2], outputs[1]);
    }
    graph.AddNode(node.name + ".backward_weights", Conv2dBackwardWeights{op}, {x, dy},
                  std::move(outputs));
  }
  if (tape->Wanted(x)) {
    const TensorId dx = tape->NewGradient(x);
    graph.AddNode(node.name + ".backward_data", Conv2dBackwardData{op}, {weight, dy}, {dx});
    tape->Contribute(x, dx);
  }
  return absl::OkStatus();
}

}  // namespace psgd
