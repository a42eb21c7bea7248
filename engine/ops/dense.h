// A fully connected layer: y[n,o] = b[o] + sum over i of w[o,i] * x[n,i]
//   x: N I    w: O I    b: O    y: N O
#pragma once

#include <cstdint>

namespace psgd {

// x, w[, b] -> y
struct Dense {
  // Backward keeps this many elements of largest magnitude in each row of dy (KeepLargest). Less
  // than O; 0: all.
  int64_t keep = 0;
};

// w, dy -> dx
struct DenseBackwardData {};

// x, dy -> dw[, db]
struct DenseBackwardWeights {};

}  // namespace psgd
