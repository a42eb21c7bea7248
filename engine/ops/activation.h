// Activations, element by element, as PyTorch defines them. a and b are alpha and beta; s is the
// logistic function.
//   leaky relu:   y = x where x > 0, else a x             dx = dy where y > 0, else a dy
//   sigmoid:      y = s(x)                                dx = dy y (1 - y)
//   tanh:         y = tanh(x)                             dx = dy (1 - y^2)
//   gelu:         y = x P(x), P(x) = (1 + erf(x/sqrt 2))/2
//                 dx = dy (P(x) + x exp(-x^2/2) / sqrt(2 pi))
//   elu:          y = b x where x > 0, else b a (exp(x) - 1)
//   hard sigmoid: y = h(x), h(x) = a x + b, at least 0 and at most 1
//   hard swish:   y = x h(x)
//   silu:         y = x s(x)
//   softplus:     y = log(1 + exp(x))
//   mish:         y = x tanh(log(1 + exp(x)))
//   clip:         y = x, at least a and at most b         dx = dy where a < x < b, else 0
//   linear:       y = a x + b
//   power:        y = x^a
//   exp, log, sin, cos, absolute (|x|)
//   step:         y = 1 where x > 0, else 0               dx = 0
// A leaky relu's a is not negative, so y has the sign of x. relu.h has Relu, which is fused into
// layers.
//   x, y: any one shape, in x's layout
#pragma once

namespace psgd {

// x -> y
struct Activation {
  enum class Kind {
    kLeakyRelu,
    kSigmoid,
    kTanh,
    kGelu,
    kElu,
    kHardSigmoid,
    kHardSwish,
    kSilu,
    kSoftplus,
    kMish,
    kClip,
    kLinear,
    kPower,
    kExp,
    kLog,
    kSin,
    kCos,
    kAbsolute,
    kStep,
  };
  Kind kind = Kind::kLeakyRelu;
  float alpha = 0.01f;
  float beta = 0;

  // Whether the gradient is computed from y; otherwise from x.
  bool FromOutput() const {
    return kind == Kind::kLeakyRelu || kind == Kind::kSigmoid || kind == Kind::kTanh;
  }
};

// y, dy -> dx; if the gradient is computed from x: x, dy -> dx
struct ActivationBackward {
  Activation forward;
};

}  // namespace psgd
