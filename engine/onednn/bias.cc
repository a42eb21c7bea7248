#include "engine/onednn/lower.h"

namespace psgd::onednn {

void Lower(const Bias&, const Context& c) {
  Lowering& l = c.lowering;
  const View x = l.NativeReal(c.in(0));
  Dims dims(l.dims(c.in(0)).size(), 1);
  dims[1] = l.dims(c.in(1))[0];
  const Desc plain = l.Plain(c.in(1)).reshape(dims);
  // oneDNN's fast kernels need a blocked bias, too.
  const View bias = l.Get(
      c.in(1), dims.size() == 4 ? InLayout(dims, LayoutOf(x.desc), Type::f32) : plain, &plain);
  const dnnl::binary::primitive_desc pd({dnnl::algorithm::binary_add, x.desc, bias.desc, x.desc},
                                        PlannedScratchpad(), l.engine());
  l.Run<dnnl::binary>(pd, {{DNNL_ARG_SRC_0, x},
                           {DNNL_ARG_SRC_1, bias},
                           {DNNL_ARG_DST, l.PutOver(c.out(0), c.in(0), x)}});
}

// Sums are in double, because a channel of a large batch has millions of elements.
void Lower(const BiasBackward&, const Context& c) {
  Lowering& l = c.lowering;
  const Dims dims = l.dims(c.in(0));
  const int64_t channels = dims[1],
                area = ElementCount(l.graph().shape(c.in(0))) / dims[0] / dims[1];
  const BufferId dy = l.GetPlain(c.in(0)).buffer, db = l.PutPlain(c.out(0)).buffer;
  l.Call([=, batch = dims[0]](const Buffers& buffers, const Step&) {
    const float* from = static_cast<const float*>(buffers[dy]);
    for (int64_t channel = 0; channel < channels; ++channel) {
      double sum = 0;
      for (int64_t n = 0; n < batch; ++n) {
        const float* values = from + (n * channels + channel) * area;
        for (int64_t i = 0; i < area; ++i) sum += values[i];
      }
      static_cast<float*>(buffers[db])[channel] = static_cast<float>(sum);
    }
  });
}

}  // namespace psgd::onednn
