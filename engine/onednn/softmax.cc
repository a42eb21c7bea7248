#include <algorithm>
#include <cmath>

#include "engine/onednn/lower.h"

// Host loops, because the primitive has no scale and no masks, and half of a causal matrix needs no
// work. One thread computes a row, so the result does not depend on the number of threads.
namespace psgd::onednn {
namespace {

void SoftmaxRow(const float* x, int64_t open, int64_t keys, float scale, float* y) {
  const float largest = open > 0 ? *std::max_element(x, x + open) : 0.0f;
  for (int64_t k = 0; k < open; ++k) y[k] = std::exp(scale * (x[k] - largest));
  float sum = 0;
  for (int64_t k = 0; k < open; ++k) sum += y[k];
  const float inverse = 1 / sum;
  for (int64_t k = 0; k < open; ++k) y[k] *= inverse;
  std::fill(y + open, y + keys, 0.0f);
}

void SoftmaxRowGradient(const float* y, const float* dy, int64_t keys, float scale, float* dx) {
  float sum = 0;
  for (int64_t k = 0; k < keys; ++k) sum += y[k] * dy[k];
  for (int64_t k = 0; k < keys; ++k) dx[k] = scale * y[k] * (dy[k] - sum);
}

}  // namespace

void Lower(const Softmax& op, const Context& c) {
  Lowering& l = c.lowering;
  const Shape shape = l.graph().shape(c.in(0));
  const int64_t keys = shape.back(), rows = ElementCount(shape) / keys;
  const int64_t queries = op.causal ? shape[shape.size() - 2] : 1, rows_each = rows / shape[0];
  const BufferId x_buffer = l.GetPlain(c.in(0)).buffer, y_buffer = l.PutPlain(c.out(0)).buffer;
  const BufferId lengths_buffer = c.has_in(1) ? l.Native(c.in(1)).buffer : kNoBuffer;
  l.Call([=](const Buffers& buffers, const Step&) {
    const float* x = static_cast<const float*>(buffers[x_buffer]);
    float* y = static_cast<float*>(buffers[y_buffer]);
    const int32_t* lengths = lengths_buffer == kNoBuffer
                                 ? nullptr
                                 : static_cast<const int32_t*>(buffers[lengths_buffer]);
#pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row) {
      int64_t open = keys;
      if (op.causal) open = std::clamp<int64_t>(row % queries + 1 + keys - queries, 0, keys);
      if (lengths != nullptr) open = std::clamp<int64_t>(lengths[row / rows_each], 0, open);
      SoftmaxRow(x + row * keys, open, keys, op.scale, y + row * keys);
    }
  });
}

void Lower(const SoftmaxBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const Shape& shape = l.graph().shape(c.in(0));
  const int64_t keys = shape.back(), rows = ElementCount(shape) / keys;
  const BufferId y_buffer = l.GetPlain(c.in(0)).buffer, dy_buffer = l.GetPlain(c.in(1)).buffer;
  const BufferId dx_buffer = l.PutPlain(c.out(0)).buffer;
  const float scale = op.forward.scale;
  l.Call([=](const Buffers& buffers, const Step&) {
    const float* y = static_cast<const float*>(buffers[y_buffer]);
    const float* dy = static_cast<const float*>(buffers[dy_buffer]);
    float* dx = static_cast<float*>(buffers[dx_buffer]);
#pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row) {
      SoftmaxRowGradient(y + row * keys, dy + row * keys, keys, scale, dx + row * keys);
    }
  });
}

}  // namespace psgd::onednn
