#include "engine/cudnn/move.h"

#include <algorithm>
#include <numeric>

namespace psgd::cudnn {
namespace {

// Orders axes by their strides in the target, so that neighboring threads write neighboring places.
// Merges axes that are contiguous in both tensors.
absl::StatusOr<Move> Merged(const BlockMove& block) {
  std::vector<size_t> order(block.size.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return block.to_strides[a] > block.to_strides[b]; });
  Move move;
  move.from_begin = block.from_begin;
  move.to_begin = block.to_begin;
  for (size_t axis : order) {
    const int64_t size = block.size[axis];
    const int64_t from = block.from_strides[axis], to = block.to_strides[axis];
    if (size == 1) continue;
    const int last = move.axes - 1;
    if (last >= 0 && move.from_stride[last] == from * size && move.to_stride[last] == to * size) {
      move.size[last] *= size;
      move.from_stride[last] = from;
      move.to_stride[last] = to;
      continue;
    }
    if (move.axes == Move::kMostAxes) {
      return absl::UnimplementedError("a tensor of more than 8 axes cannot be moved about");
    }
    move.size[move.axes] = size;
    move.from_stride[move.axes] = from;
    move.to_stride[move.axes] = to;
    ++move.axes;
  }
  return move;
}

// Whether the move transposes whole matrices that lie one behind the other.
bool Transposes(const Move& m) {
  if (m.axes < 2 || m.axes > 3 || m.from_begin != 0 || m.to_begin != 0) return false;
  const int row = m.axes - 2, column = m.axes - 1;  // of the target
  const int64_t area = m.size[row] * m.size[column];
  return m.to_stride[column] == 1 && m.to_stride[row] == m.size[column] &&
         m.from_stride[row] == 1 && m.from_stride[column] == m.size[row] &&
         (m.axes == 2 || (m.from_stride[0] == area && m.to_stride[0] == area));
}

}  // namespace

Shape StridesOf(const Shape& shape, Layout layout) {
  if (layout == Layout::kChannelsLast) {
    return {shape[1] * shape[2] * shape[3], 1, shape[3] * shape[1], shape[1]};
  }
  Shape strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

void PutMove(const Context& c, const View& from, const View& to, const BlockMove& block) {
  const absl::StatusOr<Move> merged = Merged(block);
  if (!merged.ok()) return c.lowering.Refuse(merged.status());
  const Move& move = *merged;
  const Type type = from.format.type;
  if (!Transposes(move)) {
    c.lowering.Run(MoveElements, type, move, from, to);
    return;
  }
  // The layout conversion works in tiles, so it reads and writes whole lines.
  const ImageShape image = {.images = move.axes == 3 ? move.size[0] : 1,
                            .channels = move.size[move.axes - 1],
                            .area = move.size[move.axes - 2]};
  c.lowering.Run(Convert, image, from, Format{Layout::kPlain, type}, to,
                 Format{Layout::kChannelsLast, type});
}

}  // namespace psgd::cudnn
