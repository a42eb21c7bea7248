// The losses of single elements and their slopes, shared by the host's loops and CUDA kernels.
#pragma once

#include <cmath>

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

}  // namespace psgd
