#include <algorithm>

#include "engine/onednn/lower.h"

namespace psgd::onednn {

void Lower(const Embedding&, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t places = ElementCount(l.graph().shape(c.in(0)));
  const int64_t width = l.graph().shape(c.in(1))[1];
  const BufferId index_buffer = l.Native(c.in(0)).buffer, w_buffer = l.GetPlain(c.in(1)).buffer;
  const BufferId y_buffer = l.PutPlain(c.out(0)).buffer;
  l.Call([=](const Buffers& buffers, const Step&) {
    const int32_t* index = static_cast<const int32_t*>(buffers[index_buffer]);
    const float* w = static_cast<const float*>(buffers[w_buffer]);
    float* y = static_cast<float*>(buffers[y_buffer]);
    for (int64_t i = 0; i < places; ++i) std::copy_n(w + index[i] * width, width, y + i * width);
  });
}

// One thread adds place after place, because the formula fixes the order of the sums.
void Lower(const EmbeddingBackward&, const Context& c) {
  Lowering& l = c.lowering;
  const Shape table = l.graph().shape(c.out(0));
  const int64_t places = ElementCount(l.graph().shape(c.in(0))), width = table[1];
  const BufferId index_buffer = l.Native(c.in(0)).buffer, dy_buffer = l.GetPlain(c.in(1)).buffer;
  const BufferId dw_buffer = l.PutPlain(c.out(0)).buffer;
  l.Call([=](const Buffers& buffers, const Step&) {
    const int32_t* index = static_cast<const int32_t*>(buffers[index_buffer]);
    const float* dy = static_cast<const float*>(buffers[dy_buffer]);
    float* dw = static_cast<float*>(buffers[dw_buffer]);
    std::fill_n(dw, table[0] * width, 0.0f);
    for (int64_t i = 0; i < places; ++i) {
      float* row = dw + index[i] * width;
      for (int64_t d = 0; d < width; ++d) row[d] += dy[i * width + d];
    }
  });
}

}  // namespace psgd::onednn
