// Moves of blocks, for ops that only move elements.
#pragma once

#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

// The strides of the axes, in elements.
Shape StridesOf(const Shape& shape, Layout layout);

// A block of `size`, from one tensor to another.
struct BlockMove {
  Shape size;
  Shape from_strides, to_strides;
  int64_t from_begin = 0, to_begin = 0;
};
// Adds the launch of the move. REQUIRES: `from` and `to` have one type.
void PutMove(const Context& c, const View& from, const View& to, const BlockMove& block);

}  // namespace psgd::cudnn
