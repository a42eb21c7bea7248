#include <cmath>

#include "engine/reference/compute.h"

namespace psgd::reference {
namespace {

using Kind = Activation::Kind;

// The normal distribution's share below x.
double Below(double x) { return 0.5 * (1 + std::erf(x / std::sqrt(2.0))); }

double Value(const Activation& op, double x) {
  switch (op.kind) {
    case Kind::kLeakyRelu:
      return x > 0 ? x : op.slope * x;
    case Kind::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Kind::kTanh:
      return std::tanh(x);
    case Kind::kGelu:
      return x * Below(x);
  }
  return 0;
}

// `of` is y, of gelu x.
double Derivative(const Activation& op, double of) {
  switch (op.kind) {
    case Kind::kLeakyRelu:
      return of > 0 ? 1 : op.slope;
    case Kind::kSigmoid:
      return of * (1 - of);
    case Kind::kTanh:
      return 1 - of * of;
    case Kind::kGelu:
      return Below(of) + of * std::exp(-0.5 * of * of) / std::sqrt(2 * M_PI);
  }
  return 0;
}

}  // namespace

template <typename T>
void Compute(const Activation& op, const Operands<T>& t) {
  for (int64_t i = 0; i < ElementCount(t.in_shape(0)); ++i) {
    t.out(0)[i] = static_cast<T>(Value(op, t.in(0)[i]));
  }
}

template <typename T>
void Compute(const ActivationBackward& op, const Operands<T>& t) {
  for (int64_t i = 0; i < ElementCount(t.in_shape(0)); ++i) {
    t.out(0)[i] = static_cast<T>(t.in(1)[i] * Derivative(op.forward, t.in(0)[i]));
  }
}

PSGD_REFERENCE_OP(Activation);
PSGD_REFERENCE_OP(ActivationBackward);

}  // namespace psgd::reference
