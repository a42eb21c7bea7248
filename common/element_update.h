// What an optimizer does to each element of a parameter, as a device does it
// (optimizers/optimizer.h has the formulas). It rounds after every operation, so it gives the bits
// that the optimizers' loops give on the host, except for muon's products of matrices. No Abseil
// here, because nvcc reads this.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "common/host_device.h"
#include "common/rounded_math.h"

namespace psgd {

// Bounds of a gradient, on the host and on devices (train/gradient_clip.h): first of each element,
// then of the norm over all trained parameters. 0: no bound.
struct GradientBounds {
  float value = 0;
  double norm = 0;

  PS_HD float Bound(float g) const {
    if (value == 0 || !(g - g == 0)) return g;  // NaN and infinity stay what they are
    return g < -value ? -value : g > value ? value : g;
  }
  // What the gradient is multiplied by. Of PyTorch's clip_grad_norm_: 1e-6 keeps a division by 0
  // away.
  PS_HD float Scale(double squares) const {
    const double found = sqrt(squares);
    if (!(found - found == 0)) return static_cast<float>(found - found);  // NaN
    const double scale = norm / (found + 1e-6);
    return static_cast<float>(scale < 1 ? scale : 1);
  }
};

struct ElementUpdate {
  // kAdd: w += g. kLookAhead: of a matrix that muon moves; w is not the weight, but gets
  // nesterov's look ahead, which is made orthogonal and then moves the weights as kSgd.
  enum class Kind { kAdd, kSgd, kMomentum, kNesterov, kAdagrad, kAdam, kLookAhead };

  Kind kind = Kind::kAdd;
  float rate = 0;   // adam: rate / (1 - beta1^t)
  float decay = 0;  // not 0: g += decay * w first; not for kLookAhead
  float keep = 1;   // sgd, adam: a factor of the weight
  float momentum = 0;
  float epsilon = 0;
  float beta1 = 0, one_minus_beta1 = 0;
  float beta2 = 0, one_minus_beta2 = 0;
  float inverse_root_correction = 0;
  uint32_t rows = 0;  // kLookAhead: of the row-major matrix

  PS_HD void Apply(float g, float* w, float* first_state, float* second_state) const;
};

// A parameter, in a device's memory, and its update. A state that the update does not have is null.
struct ParameterUpdate {
  size_t size = 0;
  const float* gradient = nullptr;
  float* weights = nullptr;
  float* states[2] = {};
  ElementUpdate update;
};

PS_HD inline void ElementUpdate::Apply(float g, float* w, float* first_state,
                                       float* second_state) const {
  using Math = RoundedMath;
  if (decay != 0) g = Math::Add(g, Math::Mul(decay, *w));
  switch (kind) {
    case Kind::kAdd:
      *w = Math::Add(*w, g);
      return;
    case Kind::kSgd:
      *w = Math::Sub(Math::Mul(*w, keep), Math::Mul(rate, g));
      return;
    case Kind::kMomentum:
      *first_state = Math::Add(Math::Mul(momentum, *first_state), g);
      *w = Math::Sub(*w, Math::Mul(rate, *first_state));
      return;
    case Kind::kNesterov:
      *first_state = Math::Add(Math::Mul(momentum, *first_state), g);
      *w = Math::Sub(*w, Math::Mul(rate, Math::Add(g, Math::Mul(momentum, *first_state))));
      return;
    case Kind::kAdagrad:
      *first_state = Math::Add(*first_state, Math::Mul(g, g));
      *w = Math::Sub(*w,
                     Math::Div(Math::Mul(rate, g), Math::Add(Math::Sqrt(*first_state), epsilon)));
      return;
    case Kind::kAdam: {
      *first_state = Math::Add(Math::Mul(beta1, *first_state), Math::Mul(one_minus_beta1, g));
      *second_state =
          Math::Add(Math::Mul(beta2, *second_state), Math::Mul(Math::Mul(one_minus_beta2, g), g));
      const float root =
          Math::Add(Math::Mul(Math::Sqrt(*second_state), inverse_root_correction), epsilon);
      *w = Math::Sub(Math::Mul(*w, keep), Math::Div(Math::Mul(rate, *first_state), root));
      return;
    }
    case Kind::kLookAhead:
      *first_state = Math::Add(Math::Mul(momentum, *first_state), g);
      *w = Math::Add(g, Math::Mul(momentum, *first_state));
      return;
  }
}

}  // namespace psgd
