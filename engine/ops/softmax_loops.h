// Softmax cross-entropy on the host, for all backends in host memory. The loss must be summed in a
// fixed order, and the work is small compared with the layers.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/ops/logits_layout.h"
#include "engine/ops/softmax_cross_entropy.h"

namespace psgd {

inline bool Counts(const SoftmaxCrossEntropy& op, int32_t label) {
  return label >= 0 && label != op.ignored;
}

// The softmax of a place: p[c] = exp(x[c] - largest) / sum.
struct PlaceSoftmax {
  double largest, sum;
};

// The formulas of softmax_cross_entropy.h. `softmax` has a place of its own, `result` has three.
// REQUIRES: labels are in [-1, classes), or the ignored label.
template <typename T>
void SoftmaxCrossEntropyForward(const SoftmaxCrossEntropy& op, const LogitsLayout& layout,
                                const T* logits, const int32_t* label, PlaceSoftmax* softmax,
                                double* result) {
  double loss = 0, correct = 0, counted = 0;
  const int64_t end = layout.classes * layout.inner;
  for (int64_t n = 0; n < layout.places; ++n) {
    const T* x = logits + layout.First(n);
    int64_t best = 0;
    for (int64_t c = layout.inner; c < end; c += layout.inner) best = x[c] > x[best] ? c : best;
    double sum = 0;
    for (int64_t c = 0; c < end; c += layout.inner) sum += std::exp(x[c] - x[best]);
    softmax[n] = {x[best], sum};
    if (!Counts(op, label[n])) continue;
    const int64_t truth = label[n] * layout.inner;
    double target = double{x[truth]} - x[best];
    if (op.label_smoothing > 0) {
      double all = 0;
      for (int64_t c = 0; c < end; c += layout.inner) all += double{x[c]} - x[best];
      target += op.label_smoothing * (all / static_cast<double>(layout.classes) - target);
    }
    loss += std::log(sum) - target;
    correct += best == truth;
    counted += 1;
  }
  result[0] = loss;
  result[1] = correct;
  result[2] = counted;
}

template <typename T>
void SoftmaxCrossEntropyGradient(const SoftmaxCrossEntropy& op, const LogitsLayout& layout,
                                 const T* logits, const PlaceSoftmax* softmax, const int32_t* label,
                                 const double* result, T* dx) {
  const double weight = result[2] > 0 ? 1 / result[2] : 0;
  const double spread = op.label_smoothing / static_cast<double>(layout.classes);
  const T others = static_cast<T>(spread);
  const T truth = static_cast<T>(spread + 1 - double{op.label_smoothing});
  for (int64_t n = 0; n < layout.places; ++n) {
    const bool counted = Counts(op, label[n]);
    const T largest = static_cast<T>(softmax[n].largest);
    for (int64_t c = 0; c < layout.classes; ++c) {
      const int64_t i = layout.First(n) + c * layout.inner;
      const T target = c == label[n] ? truth : others;
      const T p = static_cast<T>(std::exp(logits[i] - largest) / softmax[n].sum);
      dx[i] = counted ? static_cast<T>((p - target) * weight) : T{0};
    }
  }
}

}  // namespace psgd
