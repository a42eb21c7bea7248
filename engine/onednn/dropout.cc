#include "engine/onednn/lower.h"

namespace psgd::onednn {
namespace {

// out = in / (1 - rate) where the mask is 1, else 0.
void ApplyMask(const uint8_t* mask, const float* in, float rate, int64_t count, float* out) {
  const float scale = 1.0f / (1.0f - rate);
  for (int64_t i = 0; i < count; ++i) out[i] = mask[i] ? in[i] * scale : 0.0f;
}

}  // namespace

// The mask numbers elements in row-major order, so both passes work on plain tensors.
void Lower(const Dropout& op, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t count = ElementCount(l.graph().shape(c.in(0)));
  const Desc mask_desc(Dims{count}, dnnl::memory::data_type::u8, Tag::x);
  const BufferId x = l.GetPlain(c.in(0)).buffer, y = l.PutPlain(c.out(0)).buffer;
  const BufferId mask = l.Put(c.out(1), mask_desc).buffer;
  l.Call([=, source = c.dropout](const Buffers& buffers, const Step& step) {
    uint8_t* drawn = static_cast<uint8_t*>(buffers[mask]);
    DrawDropoutMask(op, source, step.number, {drawn, static_cast<size_t>(count)});
    ApplyMask(drawn, static_cast<float*>(buffers[x]), op.rate, count,
              static_cast<float*>(buffers[y]));
  });
}

void Lower(const DropoutBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t count = ElementCount(l.graph().shape(c.in(0)));
  const BufferId dy = l.GetPlain(c.in(0)).buffer, mask = l.Native(c.in(1)).buffer;
  const BufferId dx = l.PutPlain(c.out(0)).buffer;
  l.Call([=](const Buffers& buffers, const Step&) {
    ApplyMask(static_cast<uint8_t*>(buffers[mask]), static_cast<float*>(buffers[dy]), op.rate,
              count, static_cast<float*>(buffers[dx]));
  });
}

}  // namespace psgd::onednn
