// Activations, element by element, as PyTorch defines them:
//   leaky relu: y = x where x > 0, else slope x         dx = dy where y > 0, else slope dy
//   sigmoid:    y = 1 / (1 + exp(-x))                   dx = dy y (1 - y)
//   tanh:       y = tanh(x)                             dx = dy (1 - y^2)
//   gelu:       y = x P(x), P(x) = (1 + erf(x/sqrt 2))/2
//               dx = dy (P(x) + x exp(-x^2/2) / sqrt(2 pi))
//   x, y: any one shape, in x's layout
// The slope is not negative, so y has the sign of x. relu.h has Relu, which is fused into layers.
#pragma once

namespace psgd {

// x -> y
struct Activation {
  enum class Kind { kLeakyRelu, kSigmoid, kTanh, kGelu };
  Kind kind = Kind::kLeakyRelu;
  float slope = 0.01f;  // leaky relu only
};

// y, dy -> dx; gelu: x, dy -> dx
struct ActivationBackward {
  Activation forward;
};

}  // namespace psgd
