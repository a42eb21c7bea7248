// A fully connected layer: y[n,o] = b[o] + sum over i of w[o,i] * x[n,i]
//   x: N I    w: O I    b: O    y: N O
#pragma once

namespace psgd {

// x, w[, b] -> y
struct Dense {};

// w, dy -> dx
struct DenseBackwardData {};

// x, dy -> dw[, db]
struct DenseBackwardWeights {};

}  // namespace psgd
