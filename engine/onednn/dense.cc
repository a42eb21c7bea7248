#include "engine/onednn/lower.h"

// Everything stays in the plain layout: the weights change every step, and reordering them would
// cost more than the blocked kernels gain.
namespace psgd::onednn {
namespace {

dnnl::inner_product_forward::primitive_desc Forward(const Lowering& l, const Desc& x,
                                                    const Desc& weights, const Desc& bias,
                                                    const Desc& y,
                                                    const dnnl::primitive_attr& attributes) {
  return {{dnnl::prop_kind::forward_training, x, weights, bias, y}, attributes, l.engine()};
}

}  // namespace

void Lower(const Dense&, const Context& c) {
  Lowering& l = c.lowering;
  dnnl::primitive_attr attributes = PlannedScratchpad();
  const TensorId y = FuseRelu(c, c.out(0), &attributes);
  const Desc bias = c.has_in(2) ? l.Plain(c.in(2)) : Desc();
  const auto pd =
      Forward(l, l.Plain(c.in(0)), l.Plain(c.in(1)), bias, l.Plain(c.out(0)), attributes);
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, l.GetPlain(c.in(0))},
                                     {DNNL_ARG_WEIGHTS, l.GetPlain(c.in(1))},
                                     {DNNL_ARG_DST, l.PutPlain(y)},
                                     {DNNL_ARG_SCRATCHPAD, l.Scratch(pd)}};
  if (c.has_in(2)) arguments.push_back({DNNL_ARG_BIAS, l.GetPlain(c.in(2))});
  l.Call(dnnl::inner_product_forward(pd), std::move(arguments));
}

void Lower(const DenseBackwardData&, const Context& c) {
  Lowering& l = c.lowering;
  const Desc x = l.Plain(c.out(0)), weights = l.Plain(c.in(0)), y = l.Plain(c.in(1));
  const dnnl::inner_product_backward_data::primitive_desc pd(
      {x, weights, y}, PlannedScratchpad(), l.engine(),
      Forward(l, x, weights, Desc(), y, PlannedScratchpad()));
  l.Call(dnnl::inner_product_backward_data(pd), {{DNNL_ARG_DIFF_DST, l.GetPlain(c.in(1))},
                                                 {DNNL_ARG_WEIGHTS, l.GetPlain(c.in(0))},
                                                 {DNNL_ARG_DIFF_SRC, l.PutPlain(c.out(0))},
                                                 {DNNL_ARG_SCRATCHPAD, l.Scratch(pd)}});
}

void Lower(const DenseBackwardWeights&, const Context& c) {
  Lowering& l = c.lowering;
  const Desc x = l.Plain(c.in(0)), weights = l.Plain(c.out(0)), y = l.Plain(c.in(1));
  const Desc bias = c.has_out(1) ? l.Plain(c.out(1)) : Desc();
  const dnnl::inner_product_backward_weights::primitive_desc pd(
      {x, weights, bias, y}, PlannedScratchpad(), l.engine(),
      Forward(l, x, weights, bias, y, PlannedScratchpad()));
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, l.GetPlain(c.in(0))},
                                     {DNNL_ARG_DIFF_DST, l.GetPlain(c.in(1))},
                                     {DNNL_ARG_DIFF_WEIGHTS, l.PutPlain(c.out(0))},
                                     {DNNL_ARG_SCRATCHPAD, l.Scratch(pd)}};
  if (c.has_out(1)) arguments.push_back({DNNL_ARG_DIFF_BIAS, l.PutPlain(c.out(1))});
  l.Call(dnnl::inner_product_backward_weights(pd), std::move(arguments));
}

}  // namespace psgd::onednn
