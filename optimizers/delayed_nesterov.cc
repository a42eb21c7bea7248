#include "optimizers/kernels.h"
#include "optimizers/optimizers.h"

namespace psgd {
namespace {

// The momentum moves every element, so there is no sparse form.
class DelayedNesterov : public Optimizer {
 public:
  DelayedNesterov(const DelayedNesterovConfig& config, int workers)
      : momentum_(config.momentum()),
        spread_(config.spread()),
        every_(config.every() > 0 ? config.every() : workers) {}
  absl::string_view name() const override { return "delayed_nesterov"; }
  int state_arrays() const override { return 2; }
  absl::string_view state_name(int i) const override {
    return i == 0 ? "momentum_buffer" : "gradient_sum";
  }

  void ApplyBlock(const OptimizerStep& step, const OptimizerBlock& block) const override {
    const float rate = static_cast<float>(step.learning_rate);
    const double share = spread_ / every_;
    if (step.step % every_ == 0) {
      const double rest = 1 - spread_ + share;
      Loops().renew_momentum(rate, static_cast<float>(momentum_),
                             static_cast<float>(rest * momentum_), block);
    } else {
      Loops().keep_momentum(rate, static_cast<float>(share * momentum_), block);
    }
  }

 private:
  const double momentum_;
  const double spread_;
  const uint32_t every_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeDelayedNesterov(const DelayedNesterovConfig& config, int workers) {
  return std::make_unique<DelayedNesterov>(config, workers);
}

}  // namespace psgd
