#include "engine/onednn/lower.h"
#include "engine/ops/softmax_loops.h"

namespace psgd::onednn {

void Lower(const SoftmaxCrossEntropy& op, const Context& c) {
  Lowering& l = c.lowering;
  const LogitsLayout layout(l.graph().shape(c.in(0)));
  const int64_t bytes = layout.places * static_cast<int64_t>(sizeof(PlaceSoftmax));
  const BufferId x = l.GetPlain(c.in(0)).buffer, labels = l.Native(c.in(1)).buffer;
  const BufferId softmax =
      l.Put(c.out(0), Desc(Dims{bytes}, dnnl::memory::data_type::u8, Tag::x)).buffer;
  const BufferId result = l.Native(c.out(1)).buffer;
  l.Call([=](const Buffers& buffers, const Step&) {
    SoftmaxCrossEntropyForward(op, layout, static_cast<const float*>(buffers[x]),
                               static_cast<const int32_t*>(buffers[labels]),
                               static_cast<PlaceSoftmax*>(buffers[softmax]),
                               static_cast<double*>(buffers[result]));
  });
}

void Lower(const SoftmaxCrossEntropyBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const LogitsLayout layout(l.graph().shape(c.in(0)));
  const BufferId x = l.GetPlain(c.in(0)).buffer, softmax = l.Native(c.in(1)).buffer;
  const BufferId labels = l.Native(c.in(2)).buffer, result = l.Native(c.in(3)).buffer;
  const BufferId dx = l.PutPlain(c.out(0)).buffer;
  l.Call([=, op = op.forward](const Buffers& buffers, const Step&) {
    SoftmaxCrossEntropyGradient(op, layout, static_cast<const float*>(buffers[x]),
                                static_cast<const PlaceSoftmax*>(buffers[softmax]),
                                static_cast<const int32_t*>(buffers[labels]),
                                static_cast<const double*>(buffers[result]),
                                static_cast<float*>(buffers[dx]));
  });
}

}  // namespace psgd::onednn
