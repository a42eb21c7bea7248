// Softmax cross-entropy on the host, for every backend whose logits are in host memory: the loss
// must be summed in one fixed order, and the work is small next to the layers'.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace psgd {

// The formulas of softmax_cross_entropy.h. `result` has three places.
// REQUIRES: labels in [-1, classes).
template <typename T>
void SoftmaxCrossEntropyForward(int64_t batch, int64_t classes, const T* x, const int32_t* label,
                                T* p, double* result) {
  double loss = 0, correct = 0, counted = 0;
  for (int64_t n = 0; n < batch; ++n, x += classes, p += classes) {
    const int64_t best = std::max_element(x, x + classes) - x;
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) {
      const T power = std::exp(x[c] - x[best]);
      p[c] = power;
      sum += power;
    }
    for (int64_t c = 0; c < classes; ++c) p[c] = static_cast<T>(p[c] / sum);
    if (label[n] < 0) continue;
    loss += std::log(sum) - (double{x[label[n]]} - x[best]);
    correct += best == label[n];
    counted += 1;
  }
  result[0] = loss;
  result[1] = correct;
  result[2] = counted;
}

template <typename T>
void SoftmaxCrossEntropyGradient(int64_t batch, int64_t classes, const T* p, const int32_t* label,
                                 const double* result, T* dx) {
  const double weight = result[2] > 0 ? 1 / result[2] : 0;
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t c = 0; c < classes; ++c) {
      const int64_t i = n * classes + c;
      dx[i] = label[n] < 0 ? T{0} : static_cast<T>((p[i] - (c == label[n] ? 1 : 0)) * weight);
    }
  }
}

}  // namespace psgd
