#include "optimizers/kernels.h"
#include "optimizers/moments.h"
#include "optimizers/optimizers.h"

namespace psgd {
namespace {

class Adam : public Optimizer {
 public:
  Adam(const AdamConfig& config, bool decoupled) : config_(config), decoupled_(decoupled) {}
  absl::string_view name() const override { return decoupled_ ? "adamw" : "adam"; }
  int state_arrays() const override { return 2; }
  absl::string_view state_name(int i) const override { return i == 0 ? "exp_avg" : "exp_avg_sq"; }

  void ApplyBlock(const OptimizerStep& step, const OptimizerBlock& block) const override {
    Loops().adam(MomentConstantsAt(config_, step.step, step.learning_rate), KeepAt(step), block);
  }
  std::optional<ElementUpdate> ElementUpdateAt(const OptimizerStep& step) const override {
    return MomentUpdate(MomentConstantsAt(config_, step.step, step.learning_rate), KeepAt(step));
  }

 private:
  float KeepAt(const OptimizerStep& step) const {
    return decoupled_ ? static_cast<float>(1 - step.learning_rate * step.weight_decay) : 1.0f;
  }

  const AdamConfig config_;
  const bool decoupled_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeAdam(const AdamConfig& config, bool decoupled) {
  return std::make_unique<Adam>(config, decoupled);
}

}  // namespace psgd
