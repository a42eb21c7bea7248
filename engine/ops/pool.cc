#include "engine/ops/pool.h"

#include "absl/strings/str_cat.h"
#include "engine/ops/rules.h"

namespace psgd {
namespace {

// Room for one more window where a part of one is left.
int64_t RoundedUp(int64_t outputs, int64_t size, int kernel, int stride, int pad) {
  const bool part_left = (outputs - 1) * stride + kernel < size + 2 * pad;
  return outputs + (part_left && outputs * stride < size + pad ? 1 : 0);
}

}  // namespace

absl::StatusOr<TensorId> AddPool(Graph* graph, const std::string& name, const Pool& op,
                                 TensorId x) {
  const Shape in = graph->shape(x);
  if (in.size() != 4) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": pooling needs images, not ", ShapeText(in)));
  }
  const Window& window = op.window;
  if (window.dilation != Extent(1) || window.pad.height * 2 > window.kernel.height ||
      window.pad.width * 2 > window.kernel.width) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": pooling takes no dilation, and padding of at most half its kernel"));
  }
  const auto image = SlideOver(window, in[2], in[3]);
  if (!image.ok()) return Annotate(image.status(), name);
  Shape out = {in[0], in[1], image->height, image->width};
  if (op.ceil) {
    if (op.kind != Pool::Kind::kMax) {
      return absl::InvalidArgumentError(name + ": only max pooling rounds its size up");
    }
    out[2] =
        RoundedUp(out[2], in[2], window.kernel.height, window.stride.height, window.pad.height);
    out[3] = RoundedUp(out[3], in[3], window.kernel.width, window.stride.width, window.pad.width);
  }
  std::vector<TensorId> outputs = {graph->AddTensor(name, out)};
  if (op.kind == Pool::Kind::kMax) {
    outputs.push_back(graph->AddTensor(name + ".where", out, Element::kOpaque));
  }
  graph->AddNode(name, op, {x}, outputs);
  return outputs[0];
}

absl::Status AddGradient(const Pool& op, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  if (dy == kNoTensor) return absl::OkStatus();
  const TensorId dx = tape->NewGradient(node.inputs[0]);
  std::vector<TensorId> inputs = {dy};
  if (op.kind == Pool::Kind::kMax) inputs.push_back(node.outputs[1]);
  tape->graph().AddNode(node.name + ".backward", PoolBackward{op}, std::move(inputs), {dx});
  tape->Contribute(node.inputs[0], dx);
  return absl::OkStatus();
}

}  // namespace psgd
