// Bounds of this worker's gradient (train.clip), before weight decay, codec and residual: first of
// each element, then of the norm over all parameters. As PyTorch's clip_grad_value_ and
// clip_grad_norm_: where the norm is above its bound, the gradient is multiplied by
// bound / (norm + 1e-6).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/element_update.h"
#include "proto/config.pb.h"
#include "proto/model.pb.h"

namespace psgd {

// Not thread-safe, but several threads may call Clipped. Running statistics are not clipped.
class GradientClip {
 public:
  // `factor_rows`: by parameter, of Network::factor_rows. Factors count with the norm of their
  // product. REQUIRES: `model` outlives this; with factors there is no bound of the elements.
  GradientClip(const ClipConfig& config, const ModelSpec& model, std::vector<int64_t> factor_rows);

  // Whether Clipped needs the gradients of all parameters: nothing can leave before the last one.
  bool waits_for_all() const { return bounds_.norm > 0; }
  // A parameter's gradient is final. REQUIRES: each parameter once, in the same order in each step.
  void Add(int parameter, std::span<const float> gradient);
  // The gradient within the bounds. If the norm is bounded and a value of the gradient is not
  // finite, every parameter gets a value that is not finite, so that the shards refuse the whole
  // gradient. It is `gradient`, or lies in `room`. REQUIRES: Add was called for all parameters, or
  // !waits_for_all().
  std::span<const float> Clipped(int parameter, std::span<const float> gradient,
                                 std::vector<float>* room) const;
  // The step's gradients are clipped.
  void EndStep() { squares_ = 0; }

 private:
  bool Counts(int parameter) const {
    return model_.parameters(parameter).role() == ParameterSpec::TRAINED;
  }
  double SquaresOf(std::span<const float> gradient);
  // The square of the norm of the product of factors.
  double SquaresOfProduct(int parameter, std::span<const float> factors) const;
  // What the gradient is multiplied by.
  float Scale() const { return bounds_.norm == 0 ? 1 : bounds_.Scale(squares_); }

  const GradientBounds bounds_;
  const ModelSpec& model_;
  const std::vector<int64_t> factor_rows_;  // by parameter
  double squares_ = 0;                      // of the gradients that were added
  std::vector<float> clipped_;              // scratch of SquaresOf
};

}  // namespace psgd
