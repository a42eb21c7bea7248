// Batch normalization of each channel (Ioffe and Szegedy, 2015):
//   y = gamma (x - mean) / sqrt(var + epsilon) + beta
// In training mean and var (biased) are the batch's; in evaluation they are the running statistics.
// Training also outputs the changes of the running statistics, with the unbiased variance:
//   dmean = momentum (mean - running_mean)    dvar = momentum (var M/(M-1) - running_var)
// Backward, over the M = N H W elements of a channel, with xhat = (x - mean) / sqrt(var + epsilon):
//   dbeta = sum dy    dgamma = sum dy xhat
//   dx = gamma / sqrt(var + epsilon) (dy - dbeta / M - xhat dgamma / M)
//   x, y: N C H W    all others: C
#pragma once

namespace psgd {

// x, gamma, beta, running_mean, running_var -> y, mean, var, dmean, dvar
struct BatchNorm {
  float epsilon = 1e-5f;
  float momentum = 0.1f;
};

// x, gamma, beta, running_mean, running_var -> y
struct BatchNormInference {
  float epsilon = 1e-5f;
};

// x, gamma, mean, var, dy -> dgamma, dbeta[, dx]
struct BatchNormBackward {
  BatchNorm forward;
};

}  // namespace psgd
