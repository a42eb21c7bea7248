// The formulas of activation.h for one element, used by our own loops and kernels.
#pragma once

#include <cmath>

#include "common/host_device.h"
#include "engine/ops/activation.h"

namespace psgd {

// The normal distribution's share below x. erfc stays precise far below zero.
template <typename T>
PS_HD T NormalBelow(T x) {
  return T(0.5) * std::erfc(-x * T(M_SQRT1_2));
}

template <typename T>
PS_HD T ActivationOf(const Activation& op, T x) {
  switch (op.kind) {
    case Activation::Kind::kLeakyRelu:
      return x > 0 ? x : op.slope * x;
    case Activation::Kind::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::Kind::kTanh:
      return std::tanh(x);
    case Activation::Kind::kGelu:
      return x * NormalBelow(x);
  }
  return 0;
}

// `of`: y; for gelu x.
template <typename T>
PS_HD T ActivationSlope(const Activation& op, T of) {
  switch (op.kind) {
    case Activation::Kind::kLeakyRelu:
      return of > 0 ? T(1) : T(op.slope);
    case Activation::Kind::kSigmoid:
      return of * (1 - of);
    case Activation::Kind::kTanh:
      return 1 - of * of;
    case Activation::Kind::kGelu:
      return NormalBelow(of) + of * std::exp(T(-0.5) * of * of) * T(0.5 * M_SQRT1_2 * M_2_SQRTPI);
  }
  return 0;
}

}  // namespace psgd
