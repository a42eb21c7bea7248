// Layer normalization over the last axis (Ba et al., 2016), each row of C values alone:
//   y = gamma (x - mean) / sqrt(var + epsilon) + beta, with the row's mean and biased variance.
// Backward, with xhat = (x - mean) / sqrt(var + epsilon) and g = gamma dy:
//   dbeta = sum over rows of dy    dgamma = sum over rows of dy xhat
//   dx = (g - mean of g - xhat (mean of g xhat)) / sqrt(var + epsilon), means over the row
//   x, y: ... C    gamma, beta: C    mean, var: one a row
#pragma once

namespace psgd {

// x, gamma, beta -> y, mean, var
struct LayerNorm {
  float epsilon = 1e-5f;
};

// x, gamma, mean, var, dy -> dgamma, dbeta[, dx]
struct LayerNormBackward {
  LayerNorm forward;
};

}  // namespace psgd
