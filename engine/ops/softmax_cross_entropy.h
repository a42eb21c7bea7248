// Softmax and cross-entropy of class labels, of each row n of the logits (all axes but the last):
//   p[n,c] = exp(x[n,c] - max_c x) / sum_c exp(x[n,c] - max_c x)    loss[n] = -log p[n, label[n]]
// With label smoothing e the label takes 1 - e of the target t, and all C classes share the rest:
//   t[n,c] = (1 - e) [c = label[n]] + e / C    loss[n] = -sum over c of t[n,c] log p[n,c]
// A label of -1, or the one to ignore, is not counted. The result has three doubles: the loss
// summed from the first row to the last, the counted rows whose largest logit is the label's (of
// equals the first), and the counted rows. The gradient is that of the mean over the counted rows:
//   dx[n,c] = (p[n,c] - t[n,c]) / counted, and zero where the label is not counted.
//   x, p: ... C    label: as x without its last axis, int32, below C
#pragma once

#include <cstdint>

namespace psgd {

// x, label -> p, result
struct SoftmaxCrossEntropy {
  float label_smoothing = 0;
  int32_t ignored = -1;
};

// p, label, result -> dx
struct SoftmaxCrossEntropyBackward {
  SoftmaxCrossEntropy forward;
};

}  // namespace psgd
