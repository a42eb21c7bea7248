// Convolution over images (cross-correlation, as usual in deep learning), with groups:
//   y[n,o,i,j] = b[o] + sum of w[o,c,u,v] * x[n, g C/G + c, i s + u d - p, j s + v d - p]
// over c < C/G, u < KH, v < KW, with g = o / (O/G); outside the image x is zero.
//   x: N C H W    w: O C/G KH KW    b: O    y: N O H' W'
// A transposed convolution runs the backward pass forward, as in PyTorch (ConvTranspose2d): x takes
// the place of dy, and y that of dx. If the stride allows several sizes of y, `output_pad` chooses:
//   H' = (H - 1) stride - 2 pad + dilation (KH - 1) + 1 + output_pad
//   x: N C H W    w: C O/G KH KW    b: O (a Bias)    y: N O H' W'
#pragma once

#include "engine/graph/shape.h"

namespace psgd {

// x, w[, b] -> y
struct Conv2d {
  Window window;
  int groups = 1;
};

// w, dy -> dx; as a transposed convolution: w, x -> y
struct Conv2dBackwardData {
  Conv2d forward;
};

// x, dy -> dw[, db]
struct Conv2dBackwardWeights {
  Conv2d forward;
};

}  // namespace psgd
