// A fully connected layer: y[n,o] = b[o] + sum over i of w[o,i] * x[n,i]
//   x: N I    w: O I    b: O    y: N O
#pragma once

#include <cstdint>

namespace psgd {

// x, w[, b] -> y
struct Dense {
  // Of each row of dy, so many of the largest magnitude go on (KeepLargest), fewer than there are;
  // 0: all.
  int64_t keep = 0;
};

// w, dy -> dx
struct DenseBackwardData {};

// x, dy -> dw[, db]
struct DenseBackwardWeights {};

}  // namespace psgd
