#include "engine/onednn/lower.h"
#include "engine/ops/axis_map_loops.h"

namespace psgd::onednn {

void Lower(const AxisMap& op, const Context& c) {
  Lowering& l = c.lowering;
  const AxisPlace place = PlaceOfAxis(l.graph().shape(c.in(0)), op.axis);
  const BufferId x_buffer = l.GetPlain(c.in(0)).buffer, y_buffer = l.PutPlain(c.out(0)).buffer;
  l.Call([=, matrix = op.matrix](const Buffers& buffers, const Step&) {
    const float* x = static_cast<const float*>(buffers[x_buffer]);
    float* y = static_cast<float*>(buffers[y_buffer]);
    const int64_t columns = matrix->columns, rows = matrix->rows();
#pragma omp parallel for
    for (int64_t i = 0; i < place.outer * rows; ++i) {
      MapRow(*matrix, i % rows, place.inner, x + i / rows * columns * place.inner,
             y + i * place.inner);
    }
  });
}

}  // namespace psgd::onednn
