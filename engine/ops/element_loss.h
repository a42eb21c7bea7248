// Losses of single elements x against targets t. Without given targets, t is 1 for the label's
// class and 0 for the others. The loss of a place n is the mean over its C outputs. With d = x - t:
//   sigmoid cross-entropy: max(x, 0) - x t + log(1 + exp(-|x|)), x a logit; slope s(x) - t, s is
//                          the logistic function
//   squared error:         d^2; slope 2 d
//   smooth L1:             d^2 / 2 where |d| < 1, else |d| - 1/2; slope d and the sign of d
//   Poisson:               exp(x) - t x, x the logarithm of the mean of counts; slope exp(x) - t
// A label of -1 is not counted. Without given targets, shapes and the result are those of
// softmax_cross_entropy.h. With them a place is a sample, its label says only whether it counts,
// and no place is correct:
//   x, target: N C    label: N
// The gradient is that of the mean over the counted places:
//   dx[n,c] = slope / (C counted), and zero where the label is not counted.
#pragma once

namespace psgd {

// x, label -> result, or x, label, target -> result
struct ElementLoss {
  enum class Kind { kSigmoidCrossEntropy, kSquaredError, kSmoothL1, kPoisson };
  Kind kind = Kind::kSquaredError;
};

// x, label, result -> dx, or x, label, result, target -> dx
struct ElementLossBackward {
  ElementLoss forward;
};

}  // namespace psgd
