#include "engine/cudnn/convolution.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {
namespace {

using Pass = ConvolutionProblem::Pass;

// Plans the pass and adds its launch. x, w and y are tensors or their gradients.
void Convolve(const Conv2d& op, Pass pass, const Context& c, const Shape& x_shape,
              const Shape& w_shape, const Shape& y_shape, const View& x, const View& w,
              const View& y) {
  Lowering& l = c.lowering;
  const ConvolutionProblem problem = {.pass = pass,
                                      .type = l.type(),
                                      .x = x_shape,
                                      .w = w_shape,
                                      .y = y_shape,
                                      .window = op.window,
                                      .tensor_float = c.options.precision == Precision::kTf32};
  auto planned = Convolution::Plan(*l.device(), problem, c.options.choices, c.options.plan_only);
  if (!planned.ok()) return l.Refuse(planned.status());
  const std::shared_ptr<Convolution> convolution = *std::move(planned);
  const BufferId workspace = l.Temporary(convolution->workspace_bytes());
  l.Call([=, device = l.device()](const Buffers& b, const Step&) {
    return convolution->Run(*device, b[x.buffer], b[w.buffer], b[y.buffer], b[workspace]);
  });
}

// Convert pads only what was written row-major.
bool IsPlain(const Context& c, TensorId tensor) {
  return c.lowering.Native(tensor).format.layout == Layout::kPlain;
}

// The channels that the convolution has in memory. cuDNN's fast engines need whole units of 16
// bytes, which the few channels of pictures are not: 0 for other inputs.
int64_t PaddedChannels(const Context& c, TensorId x, int64_t filter_channels) {
  Lowering& l = c.lowering;
  const int64_t channels = l.shape(x)[1], unit = kPaddedBytes / TypeBytes(l.type());
  const bool rounds = l.type() != Type::kFloat || c.options.precision == Precision::kTf32;
  const bool few = channels > 2 && channels < unit && filter_channels == channels;
  return rounds && few && l.external(x) && IsPlain(c, x) ? unit : 0;
}

Format Padded(Format format, int64_t channels) {
  format.channels = channels;
  return format;
}
Shape Padded(Shape shape, int64_t channels) {
  if (channels > 0) shape[1] = channels;
  return shape;
}

// The result of the present node. `inputs`: x, weights and perhaps a bias; with `relu` there is
// one.
void PutConvolution(const Conv2d& op, const std::vector<TensorId>& inputs, bool relu,
                    const Context& c) {
  Lowering& l = c.lowering;
  const TensorId from = inputs[0], weights = inputs[1];
  const int64_t channels = IsPlain(c, weights) ? PaddedChannels(c, from, l.shape(weights)[1]) : 0;
  const View x = l.Get(from, Padded(l.Usual(from), channels));
  const View w = l.Get(weights, Padded(l.Usual(weights), channels));
  const View y = l.PutUsual(c.out(0));
  const Shape& shape = l.shape(c.out(0));
  Convolve(op, Pass::kForward, c, Padded(l.shape(from), channels),
           Padded(l.shape(weights), channels), shape, x, w, y);
  if (inputs.size() > 2) {
    AddBiasToRows(c, shape[0] * shape[2] * shape[3], shape[1], inputs[2], relu, y);
  }
}

}  // namespace

void Lower(const Conv2d& op, const Context& c) {
  PutConvolution(op, c.node.inputs, /*relu=*/false, c);
}

void LowerConvolutionChain(const Chain& chain, const Context& c) {
  if (!c.IsLastOf(chain)) return;
  c.lowering.SetWork(chain.nodes);
  const Node& convolution = c.lowering.node(chain.nodes.front());
  PutConvolution(std::get<Conv2d>(convolution.op), convolution.inputs, /*relu=*/true, c);
}

void Lower(const Conv2dBackwardData& op, const Context& c) {
  Lowering& l = c.lowering;
  const View w = l.GetUsual(c.in(0)), dy = l.GetUsual(c.in(1));
  const View dx = l.PutUsual(c.out(0));
  Convolve(op.forward, Pass::kBackwardData, c, l.shape(c.out(0)), l.shape(c.in(0)),
           l.shape(c.in(1)), dx, w, dy);
}

void Lower(const Conv2dBackwardWeights& op, const Context& c) {
  Lowering& l = c.lowering;
  // A gradient that leaves the graph is converted anyway, unless other nodes read it here.
  const bool leaves = l.external(c.out(0)) && !l.read(c.out(0));
  const int64_t channels = leaves ? PaddedChannels(c, c.in(0), l.shape(c.out(0))[1]) : 0;
  const View x = l.Get(c.in(0), Padded(l.Usual(c.in(0)), channels)), dy = l.GetUsual(c.in(1));
  const View dw = l.Put(c.out(0), Padded(l.Usual(c.out(0)), channels));
  const Shape& shape = l.shape(c.in(1));
  Convolve(op.forward, Pass::kBackwardWeights, c, Padded(l.shape(c.in(0)), channels),
           Padded(l.shape(c.out(0)), channels), shape, x, dw, dy);
  if (c.has_out(1)) {
    PutColumnSums(c, shape[0] * shape[2] * shape[3], shape[1], dy.buffer, c.out(1));
  }
}

}  // namespace psgd::cudnn
