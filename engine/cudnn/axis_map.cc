#include "engine/cudnn/move.h"

namespace psgd::cudnn {
namespace {

// Memory that the first run fills with one array of the matrix.
template <typename T>
BufferId Upload(Lowering& l, const AxisMap& op, std::vector<T> AxisMatrix::*array) {
  const size_t bytes = ((*op.matrix).*array).size() * sizeof(T);
  const BufferId buffer = l.AddOnce(bytes);
  // The launch owns the matrix, so it lives until an asynchronous copy is done.
  l.CallOnce([=, matrix = op.matrix, stream = l.stream()](const Buffers& b, const Step&) {
    return CheckCall(cudaMemcpyAsync(b[buffer], ((*matrix).*array).data(), bytes,
                                     cudaMemcpyHostToDevice, stream),
                     "cudaMemcpyAsync");
  });
  return buffer;
}

}  // namespace

void Lower(const AxisMap& op, const Context& c) {
  Lowering& l = c.lowering;
  const View x = l.GetAsWritten(c.in(0)), y = l.Put(c.out(0), x.format);
  const BufferId first = Upload(l, op, &AxisMatrix::first);
  const BufferId source = Upload(l, op, &AxisMatrix::source);
  const BufferId weight = Upload(l, op, &AxisMatrix::weight);
  AxisShape shape = {.columns = op.matrix->columns, .rows = op.matrix->rows()};
  shape.inner = StridesOf(l.shape(c.in(0)), x.format.layout)[op.axis];
  shape.outer = l.elements(c.in(0)) / (shape.columns * shape.inner);
  l.Run(MapAxis, l.type(), shape, first, source, weight, x, y);
}

}  // namespace psgd::cudnn
