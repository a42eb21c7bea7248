#include "engine/onednn/lower.h"

namespace psgd::onednn {
namespace {

// The layouts that pooling is fast in and that survive a change of height and width.
Tag TagOf(const Desc& desc) {
  for (Tag tag : {Tag::nChw16c, Tag::nChw8c, Tag::nhwc}) {
    if (desc == Desc(desc.dims(), dnnl::memory::data_type::f32, tag)) return tag;
  }
  return Tag::nchw;
}

dnnl::pooling_forward::primitive_desc Forward(const Pool& op, const Lowering& l, const Desc& x,
                                              const Dims& y) {
  const auto algorithm = op.kind == Pool::Kind::kMax ? dnnl::algorithm::pooling_max
                                                     : dnnl::algorithm::pooling_avg_include_padding;
  const Desc y_desc(y, dnnl::memory::data_type::f32, TagOf(x));
  const Dims pad = Pair(op.window.pad);
  return {{dnnl::prop_kind::forward_training, algorithm, x, y_desc, Pair(op.window.stride),
           Pair(op.window.kernel), pad, pad},
          PlannedScratchpad(),
          l.engine()};
}

Desc InLayout(const Dims& dims, Tag tag) { return Desc(dims, dnnl::memory::data_type::f32, tag); }

}  // namespace

void Lower(const Pool& op, const Context& c) {
  Lowering& l = c.lowering;
  const Desc x = InLayout(l.dims(c.in(0)), TagOf(l.Native(c.in(0)).desc));
  const auto pd = Forward(op, l, x, l.dims(c.out(0)));
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, l.Get(c.in(0), x)},
                                     {DNNL_ARG_DST, l.Put(c.out(0), pd.dst_desc())},
                                     {DNNL_ARG_SCRATCHPAD, l.Scratch(pd)}};
  if (c.has_out(1)) {
    arguments.push_back({DNNL_ARG_WORKSPACE, l.Put(c.out(1), pd.workspace_desc())});
    l.hints[c.out(1)] = x;
  }
  l.Call(dnnl::pooling_forward(pd), std::move(arguments));
}

// Works in the layout of the forward pass, which the workspace is tied to; an average has none, and
// takes the layout that the gradient comes in.
void Lower(const PoolBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const Pool& pool = op.forward;
  const bool max = pool.kind == Pool::Kind::kMax;
  const Desc x =
      max ? l.hints.at(c.in(1)) : InLayout(l.dims(c.out(0)), TagOf(l.Native(c.in(0)).desc));
  const auto hint = Forward(pool, l, x, l.dims(c.in(0)));
  const auto algorithm =
      max ? dnnl::algorithm::pooling_max : dnnl::algorithm::pooling_avg_include_padding;
  const Dims pad = Pair(pool.window.pad);
  const dnnl::pooling_backward::primitive_desc pd(
      {algorithm, x, hint.dst_desc(), Pair(pool.window.stride), Pair(pool.window.kernel), pad, pad},
      PlannedScratchpad(), l.engine(), hint);
  std::vector<Argument> arguments = {{DNNL_ARG_DIFF_DST, l.Get(c.in(0), pd.diff_dst_desc())},
                                     {DNNL_ARG_DIFF_SRC, l.Put(c.out(0), pd.diff_src_desc())},
                                     {DNNL_ARG_SCRATCHPAD, l.Scratch(pd)}};
  if (max) arguments.push_back({DNNL_ARG_WORKSPACE, l.Native(c.in(1))});
  l.Call(dnnl::pooling_backward(pd), std::move(arguments));
}

}  // namespace psgd::onednn
