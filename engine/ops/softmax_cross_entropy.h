// Softmax and cross-entropy of class labels:
//   p[n,c] = exp(x[n,c] - max_c x) / sum_c exp(x[n,c] - max_c x)    loss[n] = -log p[n, label[n]]
// A label of -1 is not counted. The result has three doubles: the loss summed from the first sample
// to the last, the counted samples whose largest logit is the label's (of equals the first), and
// the counted samples. The gradient is that of the mean over the counted samples:
//   dx[n,c] = (p[n,c] - [c = label[n]]) / counted, and zero where the label is -1.
//   x, p: N C    label: N, int32, below C
// Of images, every pixel is a sample; the channels of the pixel are its logits:
//   x, p: N C H W    label: N H W
#pragma once

namespace psgd {

// x, label -> p, result
struct SoftmaxCrossEntropy {};

// p, label, result -> dx
struct SoftmaxCrossEntropyBackward {};

}  // namespace psgd
