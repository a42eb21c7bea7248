#include "engine/onednn/lower.h"

// In fp32 all tensors stay in the plain layout: weights change every step, and reordering them
// costs more than blocked kernels gain. In bf16 each step converts the weights anyway, so the
// conversion also puts them into blocks.
namespace psgd::onednn {
namespace {

// A layer's descriptions for all three passes.
struct Layer {
  Layer(const Lowering& l, TensorId x, TensorId w, TensorId y)
      : x(l.Plain(x, l.real())),
        weights(l.real() == Type::f32 ? l.Plain(w) : Desc(l.dims(w), l.real(), Tag::any)),
        y(l.Plain(y, l.real())) {}

  dnnl::inner_product_forward::primitive_desc Forward(
      const Lowering& l, const Desc& bias, const dnnl::primitive_attr& attributes) const {
    return {{dnnl::prop_kind::forward_training, x, weights, bias, y}, attributes, l.engine()};
  }

  Desc x, weights, y;
};

}  // namespace

void Lower(const Dense&, const Context& c) {
  Lowering& l = c.lowering;
  dnnl::primitive_attr attributes = PlannedScratchpad();
  const TensorId y = FuseRelu(c, c.out(0), &attributes);
  Layer layer(l, c.in(0), c.in(1), c.out(0));
  layer.y = WithType(layer.y, l.TypeOfOutput(y));
  const Desc bias = c.has_in(2) ? l.Plain(c.in(2)) : Desc();
  const auto pd = layer.Forward(l, bias, attributes);
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, l.Get(c.in(0), layer.x)},
                                     {DNNL_ARG_WEIGHTS, l.Get(c.in(1), pd.weights_desc())},
                                     {DNNL_ARG_DST, l.Put(y, layer.y)}};
  if (c.has_in(2)) arguments.push_back({DNNL_ARG_BIAS, l.GetPlain(c.in(2))});
  l.Run<dnnl::inner_product_forward>(pd, std::move(arguments));
}

void Lower(const DenseBackwardData&, const Context& c) {
  Lowering& l = c.lowering;
  const Layer layer(l, c.out(0), c.in(0), c.in(1));
  const dnnl::inner_product_backward_data::primitive_desc pd(
      {layer.x, layer.weights, layer.y}, PlannedScratchpad(), l.engine(),
      layer.Forward(l, Desc(), PlannedScratchpad()));
  l.Run<dnnl::inner_product_backward_data>(pd,
                                           {{DNNL_ARG_DIFF_DST, l.Get(c.in(1), layer.y)},
                                            {DNNL_ARG_WEIGHTS, l.Get(c.in(0), pd.weights_desc())},
                                            {DNNL_ARG_DIFF_SRC, l.Put(c.out(0), layer.x)}});
}

void Lower(const DenseBackwardWeights&, const Context& c) {
  Lowering& l = c.lowering;
  const Layer layer(l, c.in(0), c.out(0), c.in(1));
  const Desc bias = c.has_out(1) ? l.Plain(c.out(1)) : Desc();
  const dnnl::inner_product_backward_weights::primitive_desc pd(
      {layer.x, WithType(layer.weights, Type::f32), bias, layer.y}, PlannedScratchpad(), l.engine(),
      layer.Forward(l, bias, PlannedScratchpad()));
  std::vector<Argument> arguments = {
      {DNNL_ARG_SRC, l.Get(c.in(0), layer.x)},
      {DNNL_ARG_DIFF_DST, l.Get(c.in(1), layer.y)},
      {DNNL_ARG_DIFF_WEIGHTS, l.Put(c.out(0), pd.diff_weights_desc())}};
  if (c.has_out(1)) arguments.push_back({DNNL_ARG_DIFF_BIAS, l.PutPlain(c.out(1))});
  l.Run<dnnl::inner_product_backward_weights>(pd, std::move(arguments));
}

}  // namespace psgd::onednn
