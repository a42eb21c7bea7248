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
PS_HD T Logistic(T x) {
  return 1 / (1 + std::exp(-x));
}

// log(1 + exp(x)) without overflow.
template <typename T>
PS_HD T SoftplusOf(T x) {
  return (x > 0 ? x : T(0)) + std::log1p(std::exp(-std::fabs(x)));
}

template <typename T>
PS_HD T HardSigmoidOf(const Activation& op, T x) {
  const T line = op.alpha * x + op.beta;
  return line < 0 ? T(0) : line > 1 ? T(1) : line;
}

// The slope of HardSigmoidOf.
template <typename T>
PS_HD T HardSigmoidSlope(const Activation& op, T x) {
  const T line = op.alpha * x + op.beta;
  return line > 0 && line < 1 ? T(op.alpha) : T(0);
}

template <typename T>
PS_HD T ActivationOf(const Activation& op, T x) {
  const T a = op.alpha, b = op.beta;
  switch (op.kind) {
    case Activation::Kind::kLeakyRelu:
      return x > 0 ? x : a * x;
    case Activation::Kind::kSigmoid:
      return Logistic(x);
    case Activation::Kind::kTanh:
      return std::tanh(x);
    case Activation::Kind::kGelu:
      return x * NormalBelow(x);
    case Activation::Kind::kElu:
      return b * (x > 0 ? x : a * std::expm1(x));
    case Activation::Kind::kHardSigmoid:
      return HardSigmoidOf(op, x);
    case Activation::Kind::kHardSwish:
      return x * HardSigmoidOf(op, x);
    case Activation::Kind::kSilu:
      return x * Logistic(x);
    case Activation::Kind::kSoftplus:
      return SoftplusOf(x);
    case Activation::Kind::kMish:
      return x * std::tanh(SoftplusOf(x));
    case Activation::Kind::kClip:
      return x < a ? a : x > b ? b : x;
    case Activation::Kind::kLinear:
      return a * x + b;
    case Activation::Kind::kPower:
      return std::pow(x, a);
    case Activation::Kind::kExp:
      return std::exp(x);
    case Activation::Kind::kLog:
      return std::log(x);
    case Activation::Kind::kSin:
      return std::sin(x);
    case Activation::Kind::kCos:
      return std::cos(x);
    case Activation::Kind::kAbsolute:
      return std::fabs(x);
    case Activation::Kind::kStep:
      return x > 0 ? T(1) : T(0);
  }
  return 0;
}

// `of`: y if op.FromOutput(), else x.
template <typename T>
PS_HD T ActivationSlope(const Activation& op, T of) {
  const T a = op.alpha, b = op.beta;
  switch (op.kind) {
    case Activation::Kind::kLeakyRelu:
      return of > 0 ? T(1) : a;
    case Activation::Kind::kSigmoid:
      return of * (1 - of);
    case Activation::Kind::kTanh:
      return 1 - of * of;
    case Activation::Kind::kGelu:
      return NormalBelow(of) + of * std::exp(T(-0.5) * of * of) * T(0.5 * M_SQRT1_2 * M_2_SQRTPI);
    case Activation::Kind::kElu:
      return b * (of > 0 ? T(1) : a * std::exp(of));
    case Activation::Kind::kHardSigmoid:
      return HardSigmoidSlope(op, of);
    case Activation::Kind::kHardSwish:
      return HardSigmoidOf(op, of) + of * HardSigmoidSlope(op, of);
    case Activation::Kind::kSilu: {
      const T share = Logistic(of);
      return share * (1 + of * (1 - share));
    }
    case Activation::Kind::kSoftplus:
      return Logistic(of);
    case Activation::Kind::kMish: {
      const T curved = std::tanh(SoftplusOf(of));
      return curved + of * (1 - curved * curved) * Logistic(of);
    }
    case Activation::Kind::kClip:
      return of > a && of < b ? T(1) : T(0);
    case Activation::Kind::kLinear:
      return a;
    case Activation::Kind::kPower:
      // At zero a root's slope is infinite; 0 as PyTorch's gradient of a norm.
      return of == 0 && a < 1 ? 0 : a * std::pow(of, a - 1);
    case Activation::Kind::kExp:
      return std::exp(of);
    case Activation::Kind::kLog:
      return 1 / of;
    case Activation::Kind::kSin:
      return std::cos(of);
    case Activation::Kind::kCos:
      return -std::sin(of);
    case Activation::Kind::kAbsolute:
      return of > 0 ? T(1) : of < 0 ? T(-1) : T(0);
    case Activation::Kind::kStep:
      return 0;
  }
  return 0;
}

}  // namespace psgd
