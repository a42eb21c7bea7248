// Softmax cross-entropy on the host, for every backend whose logits are in host memory: the loss
// must be summed in one fixed order, and the work is small next to the layers'.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/ops/softmax_cross_entropy.h"

namespace psgd {

// The formulas of softmax_cross_entropy.h. `result` has three places.
// REQUIRES: labels in [-1, classes), or the ignored one.
template <typename T>
void SoftmaxCrossEntropyForward(const SoftmaxCrossEntropy& op, int64_t rows, int64_t classes,
                                const T* x, const int32_t* label, T* p, double* result) {
  double loss = 0, correct = 0, counted = 0;
  for (int64_t n = 0; n < rows; ++n, x += classes, p += classes) {
    const int64_t best = std::max_element(x, x + classes) - x;
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) {
      const T power = std::exp(x[c] - x[best]);
      p[c] = power;
      sum += power;
    }
    for (int64_t c = 0; c < classes; ++c) p[c] = static_cast<T>(p[c] / sum);
    if (label[n] < 0 || label[n] == op.ignored) continue;
    double target = double{x[label[n]]} - x[best];
    if (op.label_smoothing > 0) {
      double all = 0;
      for (int64_t c = 0; c < classes; ++c) all += double{x[c]} - x[best];
      target += op.label_smoothing * (all / static_cast<double>(classes) - target);
    }
    loss += std::log(sum) - target;
    correct += best == label[n];
    counted += 1;
  }
  result[0] = loss;
  result[1] = correct;
  result[2] = counted;
}

template <typename T>
void SoftmaxCrossEntropyGradient(const SoftmaxCrossEntropy& op, int64_t rows, int64_t classes,
                                 const T* p, const int32_t* label, const double* result, T* dx) {
  const double weight = result[2] > 0 ? 1 / result[2] : 0;
  const double spread = op.label_smoothing / static_cast<double>(classes);
  for (int64_t n = 0; n < rows; ++n) {
    const bool counted = label[n] >= 0 && label[n] != op.ignored;
    for (int64_t c = 0; c < classes; ++c) {
      const int64_t i = n * classes + c;
      const double share = c == label[n] ? 1 - double{op.label_smoothing} : 0;
      const T target = static_cast<T>(spread + share);
      dx[i] = counted ? static_cast<T>((p[i] - target) * weight) : T{0};
    }
  }
}

}  // namespace psgd
