#include "engine/onednn/lower.h"

namespace psgd::onednn {

// Reorders from the middle of x. x keeps its layout unless the slice cuts a block.
void Lower(const Slice& op, const Context& c) {
  Lowering& l = c.lowering;
  const Dims dims = l.dims(c.out(0));
  Dims offset(dims.size(), 0);
  offset[op.axis] = op.begin;
  View part = l.Native(c.in(0));
  const Type type = TypeOf(part.desc);
  Desc y = l.Plain(c.out(0), type);
  Desc middle = part.desc.submemory_desc(dims, offset, /*allow_empty=*/true);
  if (middle && dims.size() == 4) {
    y = InLayout(dims, LayoutOf(part.desc), type);
  } else if (!middle) {
    part = l.GetPlain(c.in(0), type);
    middle = part.desc.submemory_desc(dims, offset);
  }
  part.desc = middle;
  const View to = l.Put(c.out(0), y);
  const dnnl::reorder::primitive_desc pd(l.engine(), part.desc, l.engine(), to.desc,
                                         PlannedScratchpad());
  l.Run<dnnl::reorder>(pd, {{DNNL_ARG_FROM, part}, {DNNL_ARG_TO, to}});
}

}  // namespace psgd::onednn
