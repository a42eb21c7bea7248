// Ops that only move elements, as moves of blocks.
#pragma once

#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

// Elements from one index of each axis to the next.
Shape StridesOf(const Shape& shape, Layout layout);

// A block of that size, from a tensor with some strides to one with others.
struct BlockMove {
  Shape size;
  Shape from_strides, to_strides;
  int64_t from_begin = 0, to_begin = 0;
};
// Puts the move. `from` and `to` are of one type.
absl::Status PutMove(const Context& c, const View& from, const View& to, const BlockMove& block);

}  // namespace psgd::cudnn
