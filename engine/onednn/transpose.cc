#include "engine/onednn/lower.h"

namespace psgd::onednn {

// Reorders from plain memory whose descriptor has permuted axes.
void Lower(const Transpose& op, const Context& c) {
  Lowering& l = c.lowering;
  const Type type = TypeOf(l.Native(c.in(0)).desc);
  const View x = l.GetPlain(c.in(0), type), y = l.PutPlain(c.out(0), type);
  const Dims dims = x.desc.dims();
  Dims strides(dims.size(), 1), permuted;
  for (size_t i = dims.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * dims[i + 1];
  for (int axis : op.permutation) permuted.push_back(strides[axis]);
  const Desc from(y.desc.dims(), type, permuted);
  const dnnl::reorder::primitive_desc pd(l.engine(), from, l.engine(), y.desc, PlannedScratchpad());
  l.Run<dnnl::reorder>(pd, {{DNNL_ARG_FROM, {from, x.buffer}}, {DNNL_ARG_TO, y}});
}

}  // namespace psgd::onednn
