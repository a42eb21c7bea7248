#include <algorithm>

#include "engine/onednn/lower.h"

namespace psgd::onednn {
namespace {

// Padding below and right of the image, up to the end of the last window. If the size was rounded
// up, the last window ends behind the padding.
Dims EndPad(const Window& window, const Dims& x, const Dims& y) {
  const Dims kernel = Pair(window.kernel), stride = Pair(window.stride);
  Dims pad = Pair(window.pad);
  for (int i = 0; i < 2; ++i) {
    pad[i] = std::max(pad[i], (y[i + 2] - 1) * stride[i] + kernel[i] - x[i + 2] - pad[i]);
  }
  return pad;
}

dnnl::pooling_forward::primitive_desc Forward(const Pool& op, const Lowering& l, const Desc& x,
                                              const Dims& y) {
  const auto algorithm = op.kind == Pool::Kind::kMax ? dnnl::algorithm::pooling_max
                                                     : dnnl::algorithm::pooling_avg_include_padding;
  const Desc y_desc = InLayout(y, LayoutOf(x), l.real());
  return {{dnnl::prop_kind::forward_training, algorithm, x, y_desc, Pair(op.window.stride),
           Pair(op.window.kernel), Pair(op.window.pad), EndPad(op.window, x.dims(), y)},
          PlannedScratchpad(),
          l.engine()};
}

}  // namespace

void Lower(const Pool& op, const Context& c) {
  Lowering& l = c.lowering;
  const Desc x = InLayout(l.dims(c.in(0)), LayoutOf(l.Native(c.in(0)).desc), l.real());
  const auto pd = Forward(op, l, x, l.dims(c.out(0)));
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, l.Get(c.in(0), x)},
                                     {DNNL_ARG_DST, l.Put(c.out(0), pd.dst_desc())}};
  if (c.has_out(1)) {
    arguments.push_back({DNNL_ARG_WORKSPACE, l.Put(c.out(1), pd.workspace_desc())});
    l.hints[c.out(1)] = x;
  }
  l.Run<dnnl::pooling_forward>(pd, std::move(arguments));
}

// Max pooling uses the layout of the forward pass, because the workspace depends on it. Average
// pooling has no workspace and uses the layout of the gradient.
void Lower(const PoolBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const Pool& pool = op.forward;
  const bool max = pool.kind == Pool::Kind::kMax;
  const Desc x = max ? l.hints.at(c.in(1))
                     : InLayout(l.dims(c.out(0)), LayoutOf(l.Native(c.in(0)).desc), l.real());
  const auto hint = Forward(pool, l, x, l.dims(c.in(0)));
  const auto algorithm =
      max ? dnnl::algorithm::pooling_max : dnnl::algorithm::pooling_avg_include_padding;
  const Window& window = pool.window;
  const dnnl::pooling_backward::primitive_desc pd(
      {algorithm, x, hint.dst_desc(), Pair(window.stride), Pair(window.kernel), Pair(window.pad),
       EndPad(window, x.dims(), l.dims(c.in(0)))},
      PlannedScratchpad(), l.engine(), hint);
  std::vector<Argument> arguments = {{DNNL_ARG_DIFF_DST, l.Get(c.in(0), pd.diff_dst_desc())},
                                     {DNNL_ARG_DIFF_SRC, l.Put(c.out(0), pd.diff_src_desc())}};
  if (max) arguments.push_back({DNNL_ARG_WORKSPACE, l.Native(c.in(1))});
  l.Run<dnnl::pooling_backward>(pd, std::move(arguments));
}

}  // namespace psgd::onednn
