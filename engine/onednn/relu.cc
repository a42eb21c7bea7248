#include "engine/onednn/lower.h"

namespace psgd::onednn {
namespace {

constexpr auto kForward = dnnl::algorithm::eltwise_relu;
constexpr auto kBackward = dnnl::algorithm::eltwise_relu_use_dst_for_bwd;

}  // namespace

TensorId FuseRelu(const Context& c, TensorId y, dnnl::primitive_attr* attributes) {
  const int user = c.lowering.SoleUser(y);
  if (user < 0 || !std::holds_alternative<Relu>(c.lowering.graph().nodes[user].op)) return y;
  dnnl::post_ops then;
  then.append_eltwise(1.0f, kForward, 0.0f, 0.0f);
  attributes->set_post_ops(then);
  c.lowering.Fuse(user);
  return c.lowering.graph().nodes[user].outputs[0];
}

void Lower(const Relu&, const Context& c) {
  Lowering& l = c.lowering;
  const View x = l.NativeReal(c.in(0));
  const dnnl::eltwise_forward::primitive_desc pd(
      {dnnl::prop_kind::forward_training, kForward, x.desc, 0.0f}, PlannedScratchpad(), l.engine());
  l.Run<dnnl::eltwise_forward>(
      pd, {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, l.PutOver(c.out(0), c.in(0), x)}});
}

void Lower(const ReluBackward&, const Context& c) {
  Lowering& l = c.lowering;
  const View y = l.NativeReal(c.in(0));
  const View dy = l.Get(c.in(1), y.desc);
  const dnnl::eltwise_forward::primitive_desc hint(
      {dnnl::prop_kind::forward_training, kBackward, y.desc, 0.0f}, l.engine());
  const dnnl::eltwise_backward::primitive_desc pd({kBackward, y.desc, y.desc, 0.0f},
                                                  PlannedScratchpad(), l.engine(), hint);
  l.Run<dnnl::eltwise_backward>(pd, {{DNNL_ARG_DST, y},
                                     {DNNL_ARG_DIFF_DST, dy},
                                     {DNNL_ARG_DIFF_SRC, l.PutOver(c.out(0), c.in(1), dy)}});
}

}  // namespace psgd::onednn
