// Embedding and EmbeddingBag: rows of a table, with or without weights.
#include <cstdint>
#include <limits>

#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {
namespace {

TableShape ShapeOf(const Lowering& l, TensorId index, TensorId value, TensorId table) {
  return {.places = l.elements(index),
          .entries = value == kNoTensor ? 1 : l.shape(index)[1],
          .rows = l.shape(table)[0],
          .width = l.shape(table)[1]};
}

const float* In(const Buffers& b, BufferId buffer) {
  return buffer == kNoBuffer ? nullptr : static_cast<const float*>(b[buffer]);
}

// `value`: the weights of the rows; kNoTensor: none.
// The table stays in fp32: a batch needs few rows, and a conversion would touch all rows.
absl::Status LowerTable(const Context& c, TensorId index, TensorId value, TensorId w, TensorId y) {
  Lowering& l = c.lowering;
  const TableShape shape = ShapeOf(l, index, value, w);
  const BufferId places = l.Native(index).buffer, table = l.Get(w, kPlainFloat).buffer;
  const BufferId values = value == kNoTensor ? kNoBuffer : l.Get(value, kPlainFloat).buffer;
  const BufferId rows = l.Put(y, l.PlainFormat()).buffer;
  l.CallKernel([=, stream = l.stream(), type = l.type()](const Buffers& b, const Step&) {
    return TableForward(stream, type, shape, static_cast<const int32_t*>(b[places]), In(b, values),
                        In(b, table), b[rows]);
  });
  return absl::OkStatus();
}

absl::Status LowerTableGradient(const Context& c, TensorId index, TensorId value, TensorId dy,
                                TensorId dw) {
  Lowering& l = c.lowering;
  const TableShape shape = ShapeOf(l, index, value, dw);
  if (shape.places > std::numeric_limits<int32_t>::max()) {
    return absl::UnimplementedError("an embedding has more than 2^31 - 1 indices");
  }
  size_t bytes = 0;
  PSGD_CUDA(TableGradientBytes(shape, &bytes));
  const BufferId places = l.Native(index).buffer, rows = l.Get(dy, l.PlainFormat()).buffer;
  const BufferId values = value == kNoTensor ? kNoBuffer : l.Get(value, kPlainFloat).buffer;
  const BufferId memory = l.Temporary(bytes), table = l.Put(dw, kPlainFloat).buffer;
  l.CallKernel([=, stream = l.stream(), type = l.type()](const Buffers& b, const Step&) {
    return TableGradient(stream, type, shape, static_cast<const int32_t*>(b[places]), In(b, values),
                         b[rows], b[memory], bytes, static_cast<float*>(b[table]));
  });
  return absl::OkStatus();
}

}  // namespace

absl::Status Lower(const Embedding&, const Context& c) {
  return LowerTable(c, c.in(0), kNoTensor, c.in(1), c.out(0));
}

absl::Status Lower(const EmbeddingBackward&, const Context& c) {
  return LowerTableGradient(c, c.in(0), kNoTensor, c.in(1), c.out(0));
}

absl::Status Lower(const EmbeddingBag&, const Context& c) {
  return LowerTable(c, c.in(0), c.in(1), c.in(2), c.out(0));
}

absl::Status Lower(const EmbeddingBagBackward&, const Context& c) {
  return LowerTableGradient(c, c.in(0), c.in(1), c.in(2), c.out(0));
}

}  // namespace psgd::cudnn
