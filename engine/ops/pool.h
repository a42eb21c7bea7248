// Pooling over images, each channel alone:
//   max:     y[n,c,i,j] = max of x in the window; of equal values the first in row-major order
//   average: y[n,c,i,j] = sum of x in the window / (KH KW); x is zero outside the image, and those
//            zeros count (PyTorch's count_include_pad, its default)
//   x: N C H W    y: N C H' W'
// The gradient goes to where the maximum was, or in equal parts to the whole window.
#pragma once

#include "engine/graph/shape.h"

namespace psgd {

// max: x -> y, where (opaque); average: x -> y
struct Pool {
  enum class Kind { kMax, kAverage };
  Kind kind = Kind::kMax;
  Window window;
  // Max alone: a last window that only partly lies over the image counts, too, unless it would
  // begin in the padding (PyTorch's ceil_mode).
  bool ceil = false;
};

// max: dy, where -> dx; average: dy -> dx
struct PoolBackward {
  Pool forward;
};

}  // namespace psgd
