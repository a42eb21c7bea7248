#include <algorithm>

#include "engine/onednn/lower.h"

namespace psgd::onednn {

void Lower(const EmbeddingBag&, const Context& c) {
  Lowering& l = c.lowering;
  const Shape shape = l.graph().shape(c.in(0));
  const int64_t width = l.graph().shape(c.in(2))[1];
  const BufferId index_buffer = l.Native(c.in(0)).buffer;
  const BufferId value_buffer = l.GetPlain(c.in(1)).buffer, w_buffer = l.GetPlain(c.in(2)).buffer;
  const BufferId y_buffer = l.PutPlain(c.out(0)).buffer;
  l.Call([=](const Buffers& buffers, const Step&) {
    const int32_t* index = static_cast<const int32_t*>(buffers[index_buffer]);
    const float* value = static_cast<const float*>(buffers[value_buffer]);
    const float* w = static_cast<const float*>(buffers[w_buffer]);
    float* y = static_cast<float*>(buffers[y_buffer]);
    std::fill_n(y, shape[0] * width, 0.0f);
    for (int64_t f = 0; f < shape[0] * shape[1]; ++f) {
      if (value[f] == 0) continue;
      const float* row = w + index[f] * width;
      float* out = y + f / shape[1] * width;
      for (int64_t d = 0; d < width; ++d) out[d] += value[f] * row[d];
    }
  });
}

// One thread adds entry after entry, because the formula fixes the order of the sums.
void Lower(const EmbeddingBagBackward&, const Context& c) {
  Lowering& l = c.lowering;
  const Shape shape = l.graph().shape(c.in(0));
  const Shape table = l.graph().shape(c.out(0));
  const int64_t width = table[1];
  const BufferId index_buffer = l.Native(c.in(0)).buffer;
  const BufferId value_buffer = l.GetPlain(c.in(1)).buffer, dy_buffer = l.GetPlain(c.in(2)).buffer;
  const BufferId dw_buffer = l.PutPlain(c.out(0)).buffer;
  l.Call([=](const Buffers& buffers, const Step&) {
    const int32_t* index = static_cast<const int32_t*>(buffers[index_buffer]);
    const float* value = static_cast<const float*>(buffers[value_buffer]);
    const float* dy = static_cast<const float*>(buffers[dy_buffer]);
    float* dw = static_cast<float*>(buffers[dw_buffer]);
    std::fill_n(dw, table[0] * width, 0.0f);
    for (int64_t f = 0; f < shape[0] * shape[1]; ++f) {
      if (value[f] == 0) continue;
      float* row = dw + index[f] * width;
      const float* in = dy + f / shape[1] * width;
      for (int64_t d = 0; d < width; ++d) row[d] += value[f] * in[d];
    }
  });
}

}  // namespace psgd::onednn
