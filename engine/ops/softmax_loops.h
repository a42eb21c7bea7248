// Softmax cross-entropy on the host, for every backend whose logits are in host memory: the loss
// must be summed in one fixed order, and the work is small next to the layers'.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/shape.h"

namespace psgd {

// Calls visit(sample, index of its first logit): a sample is a row, or a pixel of an image.
template <typename Visit>
void ForEachSample(const Shape& x, Visit visit) {
  const int64_t area = ElementCount(x) / (x[0] * x[1]);
  for (int64_t n = 0; n < x[0]; ++n) {
    for (int64_t i = 0; i < area; ++i) visit(n * area + i, n * x[1] * area + i);
  }
}

// The formulas of softmax_cross_entropy.h. `result` has three places.
// REQUIRES: labels in [-1, classes).
template <typename T>
void SoftmaxCrossEntropyForward(const Shape& shape, const T* x, const int32_t* label, T* p,
                                double* result) {
  const int64_t stride = ElementCount(shape) / (shape[0] * shape[1]);  // from class to class
  const int64_t end = shape[1] * stride;
  double loss = 0, correct = 0, counted = 0;
  ForEachSample(shape, [&](int64_t sample, int64_t first) {
    const T* logits = x + first;
    T* powers = p + first;
    int64_t best = 0;
    for (int64_t c = stride; c < end; c += stride) {
      if (logits[c] > logits[best]) best = c;
    }
    double sum = 0;
    for (int64_t c = 0; c < end; c += stride) {
      powers[c] = std::exp(logits[c] - logits[best]);
      sum += powers[c];
    }
    for (int64_t c = 0; c < end; c += stride) powers[c] = static_cast<T>(powers[c] / sum);
    if (label[sample] < 0) return;
    const int64_t truth = label[sample] * stride;
    loss += std::log(sum) - (double{logits[truth]} - logits[best]);
    correct += best == truth;
    counted += 1;
  });
  result[0] = loss;
  result[1] = correct;
  result[2] = counted;
}

template <typename T>
void SoftmaxCrossEntropyGradient(const Shape& shape, const T* p, const int32_t* label,
                                 const double* result, T* dx) {
  const int64_t stride = ElementCount(shape) / (shape[0] * shape[1]);
  const double weight = result[2] > 0 ? 1 / result[2] : 0;
  ForEachSample(shape, [&](int64_t sample, int64_t first) {
    for (int64_t c = 0; c < shape[1]; ++c) {
      const int64_t i = first + c * stride;
      const double truth = c == label[sample] ? 1 : 0;
      dx[i] = label[sample] < 0 ? T{0} : static_cast<T>((p[i] - truth) * weight);
    }
  });
}

}  // namespace psgd
