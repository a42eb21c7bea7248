#include "engine/onednn/lower.h"

namespace psgd::onednn {
namespace {

constexpr auto kNearest = dnnl::algorithm::resampling_nearest;

dnnl::resampling_forward::primitive_desc Forward(const Lowering& l, const Desc& x, const Desc& y) {
  return {{dnnl::prop_kind::forward_training, kNearest, x, y}, PlannedScratchpad(), l.engine()};
}

}  // namespace

void Lower(const Upsample&, const Context& c) {
  Lowering& l = c.lowering;
  const Tag layout = LayoutOf(l.Native(c.in(0)).desc);
  const View x = l.Get(c.in(0), InLayout(l.dims(c.in(0)), layout, l.real()));
  const auto pd = Forward(l, x.desc, InLayout(l.dims(c.out(0)), layout, l.real()));
  l.Run<dnnl::resampling_forward>(
      pd, {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, l.Put(c.out(0), pd.dst_desc())}});
}

void Lower(const UpsampleBackward&, const Context& c) {
  Lowering& l = c.lowering;
  const Tag layout = LayoutOf(l.Native(c.in(0)).desc);
  const View dy = l.Get(c.in(0), InLayout(l.dims(c.in(0)), layout, l.real()));
  const Desc dx = InLayout(l.dims(c.out(0)), layout, l.real());
  const dnnl::resampling_backward::primitive_desc pd({kNearest, dx, dy.desc}, PlannedScratchpad(),
                                                     l.engine(), Forward(l, dx, dy.desc));
  l.Run<dnnl::resampling_backward>(
      pd, {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, l.Put(c.out(0), dx)}});
}

}  // namespace psgd::onednn
