#include "engine/onednn/lower.h"

namespace psgd::onednn {
namespace {

constexpr auto kAlgorithm = dnnl::algorithm::lrn_across_channels;

dnnl::lrn_forward::primitive_desc Forward(const LocalResponseNorm& op, const Lowering& l,
                                          const Desc& x) {
  return {{dnnl::prop_kind::forward_training, kAlgorithm, x, op.size, op.alpha, op.beta, op.k},
          PlannedScratchpad(),
          l.engine()};
}

}  // namespace

// Always in fp32, because oneDNN has few bf16 kernels. Some of its kernels pass a workspace to
// their backward pass, others do not.
void Lower(const LocalResponseNorm& op, const Context& c) {
  Lowering& l = c.lowering;
  const View x = l.NativeAs(c.in(0), Type::f32);
  const auto pd = Forward(op, l, x.desc);
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, x},
                                     {DNNL_ARG_DST, l.Put(c.out(0), pd.dst_desc())}};
  if (pd.workspace_desc()) {
    arguments.push_back({DNNL_ARG_WORKSPACE, l.Put(c.out(1), pd.workspace_desc())});
  }
  l.hints[c.out(1)] = x.desc;
  l.Run<dnnl::lrn_forward>(pd, std::move(arguments));
}

void Lower(const LocalResponseNormBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const LocalResponseNorm& forward = op.forward;
  const Desc layout = l.hints.at(c.in(1));
  const auto hint = Forward(forward, l, layout);
  const dnnl::lrn_backward::primitive_desc pd(
      {kAlgorithm, layout, layout, forward.size, forward.alpha, forward.beta, forward.k},
      PlannedScratchpad(), l.engine(), hint);
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, l.Get(c.in(0), layout)},
                                     {DNNL_ARG_DIFF_DST, l.Get(c.in(2), pd.diff_dst_desc())},
                                     {DNNL_ARG_DIFF_SRC, l.Put(c.out(0), pd.diff_src_desc())}};
  if (hint.workspace_desc()) arguments.push_back({DNNL_ARG_WORKSPACE, l.Native(c.in(1))});
  l.Run<dnnl::lrn_backward>(pd, std::move(arguments));
}

}  // namespace psgd::onednn
