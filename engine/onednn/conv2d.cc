#include "engine/onednn/lower.h"

namespace psgd::onednn {
namespace {

using dnnl::prop_kind;

// bf16 kernels work on rows of pixels. On images of 2x2 or 1x1 pixels they are several times slower
// than fp32 kernels.
constexpr int64_t kFewPixels = 8;

Type TypeFor(const Lowering& l, const Dims& y) {
  return y[2] * y[3] < kFewPixels ? Type::f32 : l.real();
}

// The sizes of one convolution as oneDNN takes them: weights of several groups have one dimension
// more, and a dilation of 1 is written as 0.
struct Conv {
  Conv(const Conv2d& op, const Lowering& l, TensorId x, TensorId w, TensorId y)
      : type(TypeFor(l, l.dims(y))),
        x(Any(l.dims(x), type)),
        y(Any(l.dims(y), type)),
        bias(Dims{l.dims(y)[1]}, Type::f32, Tag::x),
        stride(Pair(op.window.stride)),
        pad(Pair(op.window.pad)) {
    const Extent& d = op.window.dilation;
    dilation = {d.height - 1, d.width - 1};
    Dims dims = l.dims(w);
    if (op.groups > 1) {
      dims[0] /= op.groups;
      dims.insert(dims.begin(), op.groups);
    }
    weights = Any(dims, type);
    weight_gradients = Any(dims, Type::f32);
    plain_weights = Desc(dims, Type::f32, op.groups > 1 ? Tag::goihw : Tag::oihw);
  }

  static Desc Any(const Dims& dims, Type type) { return Desc(dims, type, Tag::any); }

  dnnl::convolution_forward::primitive_desc Forward(const Lowering& l, bool with_bias,
                                                    const dnnl::primitive_attr& attributes) const {
    constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;
    const Desc no_bias;
    return {{prop_kind::forward_training, kAlgorithm, x, weights, with_bias ? bias : no_bias, y,
             stride, dilation, pad, pad},
            attributes,
            l.engine()};
  }

  Type type;
  Desc x, y, bias, weights, weight_gradients, plain_weights;
  Dims stride, pad, dilation;
};

}  // namespace

void Lower(const Conv2d& op, const Context& c) {
  Lowering& l = c.lowering;
  Conv conv(op, l, c.in(0), c.in(1), c.out(0));
  dnnl::primitive_attr attributes = PlannedScratchpad();
  const TensorId y = FuseRelu(c, c.out(0), &attributes);
  if (l.TypeOfOutput(y) == Type::f32) conv.y = WithType(conv.y, Type::f32);
  const auto pd = conv.Forward(l, c.has_in(2), attributes);
  std::vector<Argument> arguments = {
      {DNNL_ARG_SRC, l.Get(c.in(0), pd.src_desc())},
      {DNNL_ARG_WEIGHTS, l.Get(c.in(1), pd.weights_desc(), &conv.plain_weights)},
      {DNNL_ARG_DST, l.Put(y, pd.dst_desc())}};
  if (c.has_in(2)) arguments.push_back({DNNL_ARG_BIAS, l.GetPlain(c.in(2))});
  l.Run<dnnl::convolution_forward>(pd, std::move(arguments));
}

void Lower(const Conv2dBackwardData& op, const Context& c) {
  Lowering& l = c.lowering;
  const Conv conv(op.forward, l, c.out(0), c.in(0), c.in(1));
  const dnnl::convolution_backward_data::primitive_desc pd(
      {dnnl::algorithm::convolution_direct, conv.x, conv.weights, conv.y, conv.stride,
       conv.dilation, conv.pad, conv.pad},
      PlannedScratchpad(), l.engine(), conv.Forward(l, false, PlannedScratchpad()));
  l.Run<dnnl::convolution_backward_data>(
      pd, {{DNNL_ARG_DIFF_DST, l.Get(c.in(1), pd.diff_dst_desc())},
           {DNNL_ARG_WEIGHTS, l.Get(c.in(0), pd.weights_desc(), &conv.plain_weights)},
           {DNNL_ARG_DIFF_SRC, l.Put(c.out(0), pd.diff_src_desc())}});
}

void Lower(const Conv2dBackwardWeights& op, const Context& c) {
  Lowering& l = c.lowering;
  const Conv conv(op.forward, l, c.in(0), c.out(0), c.in(1));
  const bool with_bias = c.has_out(1);
  const Desc no_bias;
  const dnnl::convolution_backward_weights::primitive_desc pd(
      {dnnl::algorithm::convolution_direct, conv.x, conv.weight_gradients,
       with_bias ? conv.bias : no_bias, conv.y, conv.stride, conv.dilation, conv.pad, conv.pad},
      PlannedScratchpad(), l.engine(), conv.Forward(l, with_bias, PlannedScratchpad()));
  std::vector<Argument> arguments = {
      {DNNL_ARG_SRC, l.Get(c.in(0), pd.src_desc())},
      {DNNL_ARG_DIFF_DST, l.Get(c.in(1), pd.diff_dst_desc())},
      {DNNL_ARG_DIFF_WEIGHTS, l.Put(c.out(0), pd.diff_weights_desc(), &conv.plain_weights)}};
  if (with_bias) arguments.push_back({DNNL_ARG_DIFF_BIAS, l.PutPlain(c.out(1))});
  l.Run<dnnl::convolution_backward_weights>(pd, std::move(arguments));
}

}  // namespace psgd::onednn
