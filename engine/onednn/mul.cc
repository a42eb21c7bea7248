#include "engine/onednn/lower.h"

namespace psgd::onednn {

void Lower(const Mul&, const Context& c) {
  Lowering& l = c.lowering;
  const View a = l.NativeReal(c.in(0));
  const View b = l.Get(c.in(1), a.desc);
  const dnnl::binary::primitive_desc pd({dnnl::algorithm::binary_mul, a.desc, a.desc, a.desc},
                                        PlannedScratchpad(), l.engine());
  l.Run<dnnl::binary>(
      pd, {{DNNL_ARG_SRC_0, a}, {DNNL_ARG_SRC_1, b}, {DNNL_ARG_DST, l.Put(c.out(0), a.desc)}});
}

}  // namespace psgd::onednn
