#include "engine/ops/pool.h"

#include "engine/ops/rules.h"

namespace psgd {
absl::StatusOr<TensorId> AddPool(Graph* graph, const std::string& name, const Pool& op,
                                 TensorId x) {
  const Shape in = graph->shape(x);
  if (in.size() != 4) {
    return InvalidArgumentError(name, ": pooling needs images, not ", ShapeText(in));
  }
  const Window& window = op.window;
  if (window.dilation != Extent(1) || window.pad.height * 2 > window.kernel.height ||
      window.pad.width * 2 > window.kernel.width) {
    return InvalidArgumentError(
        name, ": pooling takes no dilation, and padding of at most half its kernel");
  }
  if (op.ceil && op.kind != Pool::Kind::kMax) {
    return absl::InvalidArgumentError(name + ": only max pooling rounds its size up");
  }
  // Rounding up equals rounding down over an image that is a stride less one pixel larger.
  const Extent more = op.ceil ? Extent(window.stride.height - 1, window.stride.width - 1) : 0;
  const auto image = SlideOver(window, in[2] + more.height, in[3] + more.width);
  if (!image.ok()) return Annotate(SlideOver(window, in[2], in[3]).status(), name);
  Shape out = {in[0], in[1], image->height, image->width};
  // No window begins in the padding at the end.
  if ((out[2] - 1) * window.stride.height >= in[2] + window.pad.height) --out[2];
  if ((out[3] - 1) * window.stride.width >= in[3] + window.pad.width) --out[3];
  std::vector<TensorId> outputs = {graph->AddTensor(name, out)};
  if (op.kind == Pool::Kind::kMax) {
    outputs.push_back(graph->AddTensor(name + ".where", out, Element::kOpaque));
  }
  graph->AddNode(name, op, {x}, outputs);
  return outputs[0];
}

void AddGradient(const Pool& op, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  std::vector<TensorId> inputs = {dy};
  if (op.kind == Pool::Kind::kMax) inputs.push_back(node.outputs[1]);
  tape->AddBackward(node, PoolBackward{op}, std::move(inputs), node.inputs[0]);
}

}  // namespace psgd
