#include "engine/onednn/lower.h"

namespace psgd::onednn {

void Lower(const Sum&, const Context& c) {
  Lowering& l = c.lowering;
  // In fp32 if a term is: gradients of shared weights, and sums with the output of an embedding.
  Type type = l.real();
  for (TensorId term : c.node.inputs) {
    if (TypeOf(l.Native(term).desc) == Type::f32) type = Type::f32;
  }
  const Desc layout = l.NativeAs(c.in(0), type).desc;
  const size_t terms = c.node.inputs.size();
  const std::vector<Desc> layouts(terms, layout);
  const dnnl::sum::primitive_desc pd(layout, std::vector<float>(terms, 1.0f), layouts, l.engine(),
                                     PlannedScratchpad());
  std::vector<Argument> arguments = {{DNNL_ARG_DST, l.Put(c.out(0), layout)}};
  for (size_t i = 0; i < terms; ++i) {
    arguments.push_back({DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i), l.Get(c.in(i), layout)});
  }
  l.Run<dnnl::sum>(pd, std::move(arguments));
}

}  // namespace psgd::onednn
