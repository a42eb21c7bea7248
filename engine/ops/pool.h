// Pooling over images, each channel alone:
//   max:     y[n,c,i,j] = max of x in the window; of equal values the first in row-major order
//   average: y[n,c,i,j] = sum of x in the window / (KH KW); x is zero outside the image, and these
//            zeros count (PyTorch's default, count_include_pad)
//   x: N C H W    y: N C H' W'
// The gradient goes to the maximum's place, or in equal parts to the whole window.
#pragma once

#include "engine/graph/shape.h"

namespace psgd {

// max: x -> y, where (opaque); average: x -> y
struct Pool {
  enum class Kind { kMax, kAverage };
  Kind kind = Kind::kMax;
  Window window;
  // Max only: a last window that lies partly over the image counts, too, unless it begins in the
  // padding (PyTorch's ceil_mode).
  bool ceil = false;
};

// max: dy, where -> dx; average: dy -> dx
struct PoolBackward {
  Pool forward;
};

}  // namespace psgd
