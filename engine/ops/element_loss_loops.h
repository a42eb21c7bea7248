// Losses of single elements. The loops are on the host, for every backend in host memory, for the
// same reasons as softmax_loops.h; kernels share what they do with an element.
#pragma once

#include <cmath>
#include <cstdint>

#include "common/host_device.h"
#include "engine/ops/element_loss.h"

namespace psgd {

PS_HD inline double LossOfElement(const ElementLoss& op, double x, double t) {
  const double d = x - t, size = std::abs(d);
  switch (op.kind) {
    case ElementLoss::Kind::kSigmoidCrossEntropy:
      return (x > 0 ? x : 0) - x * t + std::log1p(std::exp(-std::abs(x)));
    case ElementLoss::Kind::kSquaredError:
      return d * d;
    case ElementLoss::Kind::kSmoothL1:
      return size < op.beta ? d * d / (2 * op.beta) : size - op.beta / 2;
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
      return std::abs(d) < op.beta ? d / op.beta : std::copysign(1.0, d);
  }
  return 0;
}

// The formulas of element_loss.h. `result` has three places.
template <typename T>
void ElementLossForward(const ElementLoss& op, int64_t count, const T* x, const T* target,
                        double* result) {
  double loss = 0, correct = 0, counted = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (std::isnan(target[i])) continue;
    loss += LossOfElement(op, x[i], target[i]);
    correct +=
        op.kind == ElementLoss::Kind::kSigmoidCrossEntropy && (x[i] > 0) == (target[i] > 0.5);
    counted += 1;
  }
  result[0] = loss;
  result[1] = correct;
  result[2] = counted;
}

template <typename T>
void ElementLossGradient(const ElementLoss& op, int64_t count, const T* x, const T* target,
                         const double* result, T* dx) {
  const double weight = result[2] > 0 ? 1 / result[2] : 0;
  for (int64_t i = 0; i < count; ++i) {
    dx[i] =
        std::isnan(target[i]) ? T{0} : static_cast<T>(SlopeOfElement(op, x[i], target[i]) * weight);
  }
}

}  // namespace psgd
