// Softmax over the last axis, of scaled values, with the masks of attention:
//   y[..., q, k] = exp(s x[..., q, k]) / sum over the open k of exp(s x[..., q, k])
// A place is open unless
//   `causal` and k > q + K - Q (the last query sees all keys, the query before it one key less), or
//   lengths are given and k >= lengths[n] (padding); n is the index of the first axis.
// y is zero at other places, also in a row without open places. dx = s y (dy - sum over k of y dy).
//   x, y: ... K; with a mask N ... Q K    lengths: N, int32
#pragma once

namespace psgd {

// x[, lengths] -> y
struct Softmax {
  float scale = 1;  // above 0
  bool causal = false;
};

// y, dy -> dx
struct SoftmaxBackward {
  Softmax forward;
};

}  // namespace psgd
