#include "engine/ops/conv2d.h"

#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddConv2d(Graph* graph, const std::string& name, const Conv2d& op,
                                   TensorId x, TensorId weight, TensorId bias) {
  const Shape& in = graph->shape(x);
  const Shape& w = graph->shape(weight);
  if (in.size() != 4 || w.size() != 4 || op.groups < 1 || in[1] != w[1] * op.groups ||
      w[0] % op.groups != 0 || w[2] != op.window.kernel.height || w[3] != op.window.kernel.width) {
    return InvalidArgumentError(name, ": weights ", ShapeText(w), " in ", op.groups,
                                " groups do not fit an input of ", ShapeText(in));
  }
  if (bias != kNoTensor && graph->shape(bias) != Shape{w[0]}) {
    return InvalidArgumentError(name, ": a bias of ", ShapeText(graph->shape(bias)), " for ", w[0],
                                " output channels");
  }
  const auto image = SlideOver(op.window, in[2], in[3]);
  if (!image.ok()) return Annotate(image.status(), name);
  std::vector<TensorId> inputs = {x, weight};
  if (bias != kNoTensor) inputs.push_back(bias);
  return graph->AddResult(name, op, std::move(inputs), {in[0], w[0], image->height, image->width});
}

absl::StatusOr<TensorId> AddConvTranspose2d(Graph* graph, const std::string& name, const Conv2d& op,
                                            const Extent& output_pad, TensorId x, TensorId weight,
                                            TensorId bias) {
  const Shape& in = graph->shape(x);
  const Shape& w = graph->shape(weight);
  const Window& window = op.window;
  if (in.size() != 4 || w.size() != 4 || op.groups < 1 || in[1] != w[0] || w[0] % op.groups != 0 ||
      w[2] != window.kernel.height || w[3] != window.kernel.width) {
    return InvalidArgumentError(name, ": weights ", ShapeText(w), " in ", op.groups,
                                " groups do not fit an input of ", ShapeText(in));
  }
  const auto size = [](int64_t size, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation,
                       int64_t more) {
    return (size - 1) * stride - 2 * pad + dilation * (kernel - 1) + 1 + more;
  };
  const Shape out = {in[0], w[1] * op.groups,
                     size(in[2], window.kernel.height, window.stride.height, window.pad.height,
                          window.dilation.height, output_pad.height),
                     size(in[3], window.kernel.width, window.stride.width, window.pad.width,
                          window.dilation.width, output_pad.width)};
  const auto back = SlideOver(window, out[2], out[3]);
  if (!back.ok() || back->height != in[2] || back->width != in[3]) {
    return InvalidArgumentError(
        name, ": no image of ", out[2], "x", out[3], " is convolved to ", ShapeText(in),
        "; output padding is below the stride, and padding leaves something of the image");
  }
  const TensorId y = graph->AddResult(name, Conv2dBackwardData{op}, {weight, x}, out);
  return bias == kNoTensor ? y : AddBias(graph, name + ".biased", y, bias);
}

// The gradient of a transposed convolution. Its backward pass is an ordinary convolution.
void AddGradient(const Conv2dBackwardData& op, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  const TensorId weight = node.inputs[0], x = node.inputs[1];
  if (tape->Wanted(weight)) {
    tape->AddBackward(node, Conv2dBackwardWeights{op.forward}, {dy, x}, weight,
                      ".backward_weights");
  }
  if (tape->Wanted(x)) {
    tape->AddBackward(node, op.forward, {dy, weight}, x, ".backward_data");
  }
}

void AddGradient(const Conv2d& op, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  const TensorId x = node.inputs[0], weight = node.inputs[1];
  if (tape->Wanted(weight)) {
    tape->AddWeightsBackward(node, Conv2dBackwardWeights{op}, dy);
  } else if (node.inputs.size() > 2 && tape->Wanted(node.inputs[2])) {
    AddBiasGradient(node, dy, node.inputs[2], tape);
  }
  if (tape->Wanted(x)) {
    tape->AddBackward(node, Conv2dBackwardData{op}, {weight, dy}, x, ".backward_data");
  }
}

}  // namespace psgd
