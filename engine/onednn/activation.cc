#include "engine/onednn/lower.h"

namespace psgd::onednn {
namespace {

struct Eltwise {
  dnnl::algorithm forward, backward;
  float alpha;
};

Eltwise EltwiseOf(const Activation& op) {
  using dnnl::algorithm;
  switch (op.kind) {
    case Activation::Kind::kLeakyRelu:
      return {algorithm::eltwise_relu, algorithm::eltwise_relu_use_dst_for_bwd, op.slope};
    case Activation::Kind::kSigmoid:
      return {algorithm::eltwise_logistic, algorithm::eltwise_logistic_use_dst_for_bwd, 0};
    case Activation::Kind::kTanh:
      return {algorithm::eltwise_tanh, algorithm::eltwise_tanh_use_dst_for_bwd, 0};
    case Activation::Kind::kGelu:
      break;
  }
  return {algorithm::eltwise_gelu_erf, algorithm::eltwise_gelu_erf, 0};
}

dnnl::eltwise_forward::primitive_desc Forward(const Lowering& l, dnnl::algorithm algorithm,
                                              const Desc& x, float alpha) {
  return {
      {dnnl::prop_kind::forward_training, algorithm, x, alpha}, PlannedScratchpad(), l.engine()};
}

}  // namespace

void Lower(const Activation& op, const Context& c) {
  Lowering& l = c.lowering;
  const Eltwise eltwise = EltwiseOf(op);
  const View x = l.NativeReal(c.in(0));
  const auto pd = Forward(l, eltwise.forward, x.desc, eltwise.alpha);
  l.Run<dnnl::eltwise_forward>(
      pd, {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, l.PutOver(c.out(0), c.in(0), x)}});
}

void Lower(const ActivationBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const Eltwise eltwise = EltwiseOf(op.forward);
  const View of = l.NativeReal(c.in(0));
  const View dy = l.Get(c.in(1), of.desc);
  const dnnl::eltwise_backward::primitive_desc pd(
      {eltwise.backward, of.desc, of.desc, eltwise.alpha}, PlannedScratchpad(), l.engine(),
      Forward(l, eltwise.backward, of.desc, eltwise.alpha));
  const bool of_input = op.forward.kind == Activation::Kind::kGelu;
  l.Run<dnnl::eltwise_backward>(pd, {{of_input ? DNNL_ARG_SRC : DNNL_ARG_DST, of},
                                     {DNNL_ARG_DIFF_DST, dy},
                                     {DNNL_ARG_DIFF_SRC, l.PutOver(c.out(0), c.in(1), dy)}});
}

}  // namespace psgd::onednn
