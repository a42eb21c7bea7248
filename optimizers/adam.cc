#include <cmath>

#include "optimizers/kernels.h"
#include "optimizers/optimizers.h"
#include "optimizers/power.h"

namespace psgd {
namespace {

class Adam : public Optimizer {
 public:
  Adam(const AdamConfig& config, bool decoupled)
      : beta1_(config.beta1()),
        beta2_(config.beta2()),
        epsilon_(config.epsilon()),
        decoupled_(decoupled) {}
  absl::string_view name() const override { return decoupled_ ? "adamw" : "adam"; }
  int state_arrays() const override { return 2; }
  absl::string_view state_name(int i) const override { return i == 0 ? "exp_avg" : "exp_avg_sq"; }

  void ApplyBlock(const OptimizerStep& step, const OptimizerBlock& block) const override {
    AdamConstants c;
    c.beta1 = static_cast<float>(beta1_);
    c.one_minus_beta1 = static_cast<float>(1 - beta1_);
    c.beta2 = static_cast<float>(beta2_);
    c.one_minus_beta2 = static_cast<float>(1 - beta2_);
    c.epsilon = static_cast<float>(epsilon_);
    c.step_size = static_cast<float>(step.learning_rate / (1 - Power(beta1_, step.step)));
    c.inverse_root_correction = static_cast<float>(1 / std::sqrt(1 - Power(beta2_, step.step)));
    c.keep = decoupled_ ? static_cast<float>(1 - step.learning_rate * step.weight_decay) : 1.0f;
    AdamLoop(c, block);
  }

 private:
  const double beta1_;
  const double beta2_;
  const double epsilon_;
  const bool decoupled_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeAdam(const AdamConfig& config, bool decoupled) {
  return std::make_unique<Adam>(config, decoupled);
}

}  // namespace psgd
