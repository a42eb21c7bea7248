// Losses of single elements. The loops serve all backends in host memory, for the reasons of
// softmax_loops.h. CUDA kernels share the functions of one element.
#pragma once

#include <cmath>
#include <cstdint>

#include "common/host_device.h"
#include "engine/ops/element_loss.h"
#include "engine/ops/logits_layout.h"

namespace psgd {

PS_HD inline double LossOfElement(const ElementLoss& op, double x, double t) {
  const double d = x - t, size = std::abs(d);
  switch (op.kind) {
    case ElementLoss::Kind::kSigmoidCrossEntropy:
      return (x > 0 ? x : 0) - x * t + std::log1p(std::exp(-std::abs(x)));
    case ElementLoss::Kind::kSquaredError:
      return d * d;
    case ElementLoss::Kind::kSmoothL1:
      return size < 1 ? d * d / 2 : size - 0.5;
    case ElementLoss::Kind::kPoisson:
      return std::exp(x) - t * x;
  }
  return 0;
}

PS_HD inline double SlopeOfElement(const ElementLoss& op, double x, double t) {
  const double d = x - t;
  switch (op.kind) {
    case ElementLoss::Kind::kSigmoidCrossEntropy:
      return 1 / (1 + std::exp(-x)) - t;
    case ElementLoss::Kind::kSquaredError:
      return 2 * d;
    case ElementLoss::Kind::kSmoothL1:
      return std::abs(d) < 1 ? d : std::copysign(1.0, d);
    case ElementLoss::Kind::kPoisson:
      return std::exp(x) - t;
  }
  return 0;
}

// The formulas of element_loss.h. `target`: null if no targets are given. `result` has three
// places. REQUIRES: labels in [-1, classes).
template <typename T>
void ElementLossForward(const ElementLoss& op, const LogitsLayout& layout, const T* logits,
                        const int32_t* label, const T* target, double* result) {
  double loss = 0, correct = 0, counted = 0;
  const int64_t end = layout.classes * layout.inner;
  for (int64_t n = 0; n < layout.places; ++n) {
    if (label[n] < 0) continue;
    const T* x = logits + layout.First(n);
    const T* t = target == nullptr ? nullptr : target + layout.First(n);
    const int64_t truth = label[n] * layout.inner;
    double sum = 0;
    int64_t best = 0;
    for (int64_t c = 0; c < end; c += layout.inner) {
      sum += LossOfElement(op, x[c], t == nullptr ? c == truth : double{t[c]});
      best = x[c] > x[best] ? c : best;
    }
    loss += sum / static_cast<double>(layout.classes);
    correct += t == nullptr && best == truth;
    counted += 1;
  }
  result[0] = loss;
  result[1] = correct;
  result[2] = counted;
}

template <typename T>
void ElementLossGradient(const ElementLoss& op, const LogitsLayout& layout, const T* logits,
                         const int32_t* label, const T* target, const double* result, T* dx) {
  const double weight = result[2] > 0 ? 1 / (result[2] * static_cast<double>(layout.classes)) : 0;
  for (int64_t n = 0; n < layout.places; ++n) {
    for (int64_t c = 0; c < layout.classes; ++c) {
      const int64_t i = layout.First(n) + c * layout.inner;
      const double t = target == nullptr ? c == label[n] : double{target[i]};
      dx[i] = static_cast<T>(label[n] < 0 ? 0 : SlopeOfElement(op, logits[i], t) * weight);
    }
  }
}

}  // namespace psgd
