#include <algorithm>

#include "optimizers/kernels.h"
#include "optimizers/norms.h"
#include "optimizers/optimizers.h"

namespace psgd {
namespace {

class Lars : public Optimizer {
 public:
  explicit Lars(const LarsConfig& config)
      : momentum_(static_cast<float>(config.momentum())), trust_(config.trust()) {}
  absl::string_view name() const override { return "lars"; }
  int state_arrays() const override { return 1; }
  // Not momentum's name: this array has the learning rate in it.
  absl::string_view state_name(int) const override { return "velocity"; }
  bool whole_slices() const override { return true; }

  void ApplyBlock(const OptimizerStep& step, const OptimizerBlock& slice) const override {
    const double ratio = step.decays ? Ratio(slice) : 1;
    Loops().lars(RateOf(step.learning_rate, ratio), momentum_, slice);
  }

 private:
  double Ratio(const OptimizerBlock& slice) const {
    SquareSums weights, gradient;
    for (size_t begin = 0; begin < slice.size; begin += kStretch) {
      const size_t size = std::min(kStretch, slice.size - begin);
      AddSquares(slice.weights_in + begin, size, &weights);
      AddSquares(slice.gradient + begin, size, &gradient);
    }
    return TrustRatio(trust_, weights, gradient);
  }

  const float momentum_;
  const double trust_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeLars(const LarsConfig& config) {
  return std::make_unique<Lars>(config);
}

}  // namespace psgd
