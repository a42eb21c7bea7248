#include <algorithm>

#include "engine/onednn/lower.h"

namespace psgd::onednn {

void Lower(const RowBias&, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t width = ElementCount(l.graph().shape(c.in(1)));
  const int64_t rows = ElementCount(l.graph().shape(c.in(0))) / width;
  const BufferId x_buffer = l.GetPlain(c.in(0)).buffer, b_buffer = l.GetPlain(c.in(1)).buffer;
  const BufferId y_buffer = l.PutPlain(c.out(0)).buffer;
  l.Call([=](const Buffers& buffers, const Step&) {
    const float* x = static_cast<const float*>(buffers[x_buffer]);
    const float* b = static_cast<const float*>(buffers[b_buffer]);
    float* y = static_cast<float*>(buffers[y_buffer]);
#pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t s = 0; s < width; ++s) y[row * width + s] = x[row * width + s] + b[s];
    }
  });
}

void Lower(const RowBiasBackward&, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t width = ElementCount(l.graph().shape(c.out(0)));
  const int64_t rows = ElementCount(l.graph().shape(c.in(0))) / width;
  const BufferId dy_buffer = l.GetPlain(c.in(0)).buffer, db_buffer = l.PutPlain(c.out(0)).buffer;
  l.Call([=](const Buffers& buffers, const Step&) {
    const float* dy = static_cast<const float*>(buffers[dy_buffer]);
    float* db = static_cast<float*>(buffers[db_buffer]);
    std::fill_n(db, width, 0.0f);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t s = 0; s < width; ++s) db[s] += dy[row * width + s];
    }
  });
}

}  // namespace psgd::onednn
