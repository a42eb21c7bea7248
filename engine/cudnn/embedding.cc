#include <cstdint>
#include <limits>

#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {
namespace {

TableShape ShapeOf(const Context& c, TensorId table) {
  const Lowering& l = c.lowering;
  return {.places = l.elements(c.in(0)),
          .entries = c.has_in(2) ? l.shape(c.in(0))[1] : 1,
          .rows = l.shape(table)[0],
          .width = l.shape(table)[1]};
}

// The values of the rows; kNoBuffer: none.
BufferId FactorsOf(const Context& c) {
  return c.has_in(2) ? c.lowering.Get(c.in(2), kPlainFloat).buffer : kNoBuffer;
}

}  // namespace

// The table stays in fp32: a batch needs few rows, and a conversion would touch all rows.
void Lower(const Embedding&, const Context& c) {
  Lowering& l = c.lowering;
  const TableShape shape = ShapeOf(c, c.in(1));
  const BufferId places = l.Native(c.in(0)).buffer, table = l.Get(c.in(1), kPlainFloat).buffer;
  const BufferId values = FactorsOf(c), rows = l.Put(c.out(0), l.PlainFormat()).buffer;
  l.Run(TableForward, l.type(), shape, places, values, table, rows);
}

void Lower(const EmbeddingBackward&, const Context& c) {
  Lowering& l = c.lowering;
  const TableShape shape = ShapeOf(c, c.out(0));
  if (shape.places > std::numeric_limits<int32_t>::max()) {
    return l.Refuse(absl::UnimplementedError("an embedding has more than 2^31 - 1 indices"));
  }
  size_t bytes = 0;
  const absl::Status sized =
      CheckCall(TableGradientBytes(shape, &bytes), "TableGradientBytes(shape, &bytes)");
  if (!sized.ok()) return l.Refuse(sized);
  const BufferId places = l.Native(c.in(0)).buffer, rows = l.Get(c.in(1), l.PlainFormat()).buffer;
  const BufferId values = FactorsOf(c), memory = l.Temporary(bytes);
  const BufferId table = l.Put(c.out(0), kPlainFloat).buffer;
  l.Run(TableGradient, l.type(), shape, places, values, rows, memory, bytes, table);
}

}  // namespace psgd::cudnn
