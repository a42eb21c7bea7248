// Softmax and cross-entropy of class labels, one for each place n of the logits:
//   p[n,c] = exp(x[n,c] - max_c x) / sum_c exp(x[n,c] - max_c x)    loss[n] = -log p[n, label[n]]
// With label smoothing e the label gets 1 - e of the target t, and all C classes share the rest:
//   t[n,c] = (1 - e) [c = label[n]] + e / C    loss[n] = -sum over c of t[n,c] log p[n,c]
// Labels -1 and `ignored` are not counted. The result has three doubles: the loss summed from the
// first place to the last, the number of counted places whose largest logit is the label's (of
// equals the first), and the number of counted places. The gradient is that of the mean over the
// counted places:
//   dx[n,c] = (p[n,c] - t[n,c]) / counted, and zero where the label is not counted.
// A place is a sample, a token or a pixel:
//   x: N C      label: N, int32, below C
//   x: N T C    label: N T
//   x: N C H W  label: N H W
// The largest logit of a place and its sum pass to the backward node, which computes p again.
#pragma once

#include <cstdint>

namespace psgd {

// x, label -> softmax, result; `softmax` is opaque
struct SoftmaxCrossEntropy {
  float label_smoothing = 0;
  int32_t ignored = -1;
};

// x, softmax, label, result -> dx
struct SoftmaxCrossEntropyBackward {
  SoftmaxCrossEntropy forward;
};

}  // namespace psgd
