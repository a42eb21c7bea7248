#include "engine/onednn/lower.h"

namespace psgd::onednn {

// oneDNN picks a layout that fits all parts: a blocked one if all parts fill their blocks.
void Lower(const Concat& op, const Context& c) {
  Lowering& l = c.lowering;
  std::vector<Desc> layouts;
  for (TensorId part : c.node.inputs) layouts.push_back(l.NativeReal(part).desc);
  const dnnl::concat::primitive_desc pd(op.axis, layouts, l.engine(), PlannedScratchpad());
  std::vector<Argument> arguments = {{DNNL_ARG_DST, l.Put(c.out(0), pd.dst_desc())}};
  for (size_t i = 0; i < layouts.size(); ++i) {
    arguments.push_back({DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i), l.NativeReal(c.in(i))});
  }
  l.Run<dnnl::concat>(pd, std::move(arguments));
}

}  // namespace psgd::onednn
