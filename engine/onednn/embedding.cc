#include <algorithm>

#include "engine/onednn/lower.h"

namespace psgd::onednn {
namespace {

// The places of an index and their values.
struct Places {
  BufferId index = kNoBuffer, value = kNoBuffer;  // without values all are 1
  int64_t count = 0;
  int64_t each = 1;  // that a row of y sums up
};

Places PlacesOf(const Context& c) {
  Lowering& l = c.lowering;
  const Shape& shape = l.graph().shape(c.in(0));
  Places places = {.index = l.Native(c.in(0)).buffer, .count = ElementCount(shape)};
  if (c.has_in(2)) {
    places.value = l.GetPlain(c.in(2)).buffer;
    places.each = shape[1];
  }
  return places;
}

}  // namespace

void Lower(const Embedding&, const Context& c) {
  Lowering& l = c.lowering;
  const Places places = PlacesOf(c);
  const int64_t width = l.graph().shape(c.in(1))[1];
  const BufferId w_buffer = l.GetPlain(c.in(1)).buffer, y_buffer = l.PutPlain(c.out(0)).buffer;
  l.Call([=](const Buffers& buffers, const Step&) {
    const int32_t* index = static_cast<const int32_t*>(buffers[places.index]);
    const float* w = static_cast<const float*>(buffers[w_buffer]);
    float* y = static_cast<float*>(buffers[y_buffer]);
    if (places.value == kNoBuffer) {
      for (int64_t i = 0; i < places.count; ++i) {
        std::copy_n(w + index[i] * width, width, y + i * width);
      }
      return;
    }
    const float* value = static_cast<const float*>(buffers[places.value]);
    std::fill_n(y, places.count / places.each * width, 0.0f);
    for (int64_t i = 0; i < places.count; ++i) {
      if (value[i] == 0) continue;
      const float* row = w + index[i] * width;
      float* out = y + i / places.each * width;
      for (int64_t d = 0; d < width; ++d) out[d] += value[i] * row[d];
    }
  });
}

// One thread adds place after place, because the formula fixes the order of the sums.
void Lower(const EmbeddingBackward&, const Context& c) {
  Lowering& l = c.lowering;
  const Places places = PlacesOf(c);
  const Shape table = l.graph().shape(c.out(0));
  const int64_t width = table[1];
  const BufferId dy_buffer = l.GetPlain(c.in(1)).buffer, dw_buffer = l.PutPlain(c.out(0)).buffer;
  l.Call([=](const Buffers& buffers, const Step&) {
    const int32_t* index = static_cast<const int32_t*>(buffers[places.index]);
    const float* value =
        places.value == kNoBuffer ? nullptr : static_cast<const float*>(buffers[places.value]);
    const float* dy = static_cast<const float*>(buffers[dy_buffer]);
    float* dw = static_cast<float*>(buffers[dw_buffer]);
    std::fill_n(dw, table[0] * width, 0.0f);
    for (int64_t i = 0; i < places.count; ++i) {
      const float weight = value == nullptr ? 1.0f : value[i];
      if (weight == 0) continue;
      float* row = dw + index[i] * width;
      const float* in = dy + i / places.each * width;
      for (int64_t d = 0; d < width; ++d) row[d] += weight * in[d];
    }
  });
}

}  // namespace psgd::onednn
