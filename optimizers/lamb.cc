#include <algorithm>

#include "optimizers/kernels.h"
#include "optimizers/moments.h"
#include "optimizers/norms.h"
#include "optimizers/optimizers.h"

namespace psgd {
namespace {

class Lamb : public Optimizer {
 public:
  explicit Lamb(const LambConfig& config) : config_(config) {}
  absl::string_view name() const override { return "lamb"; }
  int state_arrays() const override { return 2; }
  absl::string_view state_name(int i) const override { return i == 0 ? "exp_avg" : "exp_avg_sq"; }
  bool whole_slices() const override { return true; }

  // The second loop computes the same r from the moments that the first has stored: cheaper than
  // keeping r, which is as long as the slice.
  void ApplyBlock(const OptimizerStep& step, const OptimizerBlock& slice) const override {
    const MomentConstants c = MomentConstantsAt(config_, step.step, /*rate=*/1);
    const auto decay = static_cast<float>(step.weight_decay);
    SquareSums weights, update;
    alignas(64) float r[kStretch];
    for (size_t begin = 0; begin < slice.size; begin += kStretch) {
      const size_t size = std::min(kStretch, slice.size - begin);
      Loops().lamb_moments(c, decay, StretchOf(slice, begin, size), r);
      AddSquares(slice.weights_in + begin, size, &weights);
      AddSquares(r, size, &update);
    }
    const double ratio = step.decays ? TrustRatio(1, weights, update) : 1;
    Loops().lamb_step(c, decay, RateOf(step.learning_rate, ratio), slice);
  }

 private:
  static OptimizerBlock StretchOf(const OptimizerBlock& slice, size_t begin, size_t size) {
    OptimizerBlock stretch{size, slice.gradient + begin, slice.weights_in + begin,
                           slice.weights_out + begin};
    for (int i = 0; i < 2; ++i) {
      stretch.state_in[i] = slice.state_in[i] + begin;
      stretch.state_out[i] = slice.state_out[i] + begin;
    }
    return stretch;
  }

  const LambConfig config_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeLamb(const LambConfig& config) {
  return std::make_unique<Lamb>(config);
}

}  // namespace psgd
