#include "engine/onednn/lower.h"
#include "engine/ops/keep_largest_loops.h"

namespace psgd::onednn {

void Lower(const KeepLargest& op, const Context& c) {
  Lowering& l = c.lowering;
  const Desc layout = l.Plain(c.in(0));
  const int64_t rows = l.dims(c.in(0))[0], columns = l.dims(c.in(0))[1], count = op.count;
  const BufferId x_buffer = l.GetPlain(c.in(0)).buffer, y_buffer = l.PutPlain(c.out(0)).buffer;
  // Each row has its own scratch memory, because rows run on several threads.
  const BufferId scratch_buffer = l.Temporary(layout).buffer;
  l.Call([=](const Buffers& buffers, const Step&) {
    const float* x = static_cast<const float*>(buffers[x_buffer]);
    float* scratch = static_cast<float*>(buffers[scratch_buffer]);
    float* y = static_cast<float*>(buffers[y_buffer]);
#pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t at = row * columns;
      KeepLargestOfRow(x + at, columns, count, scratch + at, y + at);
    }
  });
}

}  // namespace psgd::onednn
