// Losses of each element x and its target t, with d = x - t:
//   sigmoid cross-entropy: max(x, 0) - x t + log(1 + exp(-|x|)), of logits; gradient s(x) - t, with
//                          s the logistic function
//   squared error:         d^2; gradient 2 d
//   smooth L1:             d^2 / (2 beta) where |d| < beta, else |d| - beta / 2; gradient d / beta
//                          and the sign of d
// An element whose target is NaN is not counted: padding. The result has three doubles: the loss
// summed from the first element to the last, the counted elements whose logit is above 0 where the
// target is above 1/2 and only there (none for the other two), and the counted elements. dx is the
// gradient of the mean over the counted elements; targets have none.
//   x, t: any shape
#pragma once

namespace psgd {

// x, t -> result
struct ElementLoss {
  enum class Kind { kSigmoidCrossEntropy, kSquaredError, kSmoothL1 };
  Kind kind = Kind::kSquaredError;
  float beta = 1;  // above 0
};

// x, t, result -> dx
struct ElementLossBackward {
  ElementLoss forward;
};

}  // namespace psgd
