#include "optimizers/kernels.h"
#include "optimizers/optimizers.h"
#include "optimizers/prefetch.h"

namespace psgd {
namespace {

class Sgd : public Optimizer {
 public:
  absl::string_view name() const override { return "sgd"; }
  int state_arrays() const override { return 0; }
  absl::string_view state_name(int) const override { return ""; }
  bool sparse() const override { return true; }

  void ApplyBlock(const OptimizerStep& step, const OptimizerBlock& block) const override {
    Loops().sgd(static_cast<float>(step.learning_rate), block);
  }
  std::optional<ElementUpdate> ElementUpdateAt(const OptimizerStep& step) const override {
    return ElementUpdate{.kind = ElementUpdate::Kind::kSgd,
                         .rate = static_cast<float>(step.learning_rate)};
  }

  void ApplySparse(const OptimizerStep& step, const SparseUpdate& update) const override {
    const float rate = static_cast<float>(step.learning_rate);
    for (size_t i = 0; i < update.indices.size(); ++i) {
      PrefetchEntry(update, i, 0);
      const float gradient = update.scale * update.values[i];
      update.weights[update.indices[i]] -= rate * gradient;
    }
  }
};

// Velocity moves every element at every update, so there is no sparse form.
class Momentum : public Optimizer {
 public:
  Momentum(float momentum, bool nesterov) : momentum_(momentum), nesterov_(nesterov) {}
  absl::string_view name() const override { return nesterov_ ? "nesterov" : "momentum"; }
  int state_arrays() const override { return 1; }
  absl::string_view state_name(int) const override { return "momentum_buffer"; }

  void ApplyBlock(const OptimizerStep& step, const OptimizerBlock& block) const override {
    const float rate = static_cast<float>(step.learning_rate);
    if (nesterov_) {
      Loops().nesterov(rate, momentum_, block);
    } else {
      Loops().momentum(rate, momentum_, block);
    }
  }
  std::optional<ElementUpdate> ElementUpdateAt(const OptimizerStep& step) const override {
    using Kind = ElementUpdate::Kind;
    return ElementUpdate{.kind = nesterov_ ? Kind::kNesterov : Kind::kMomentum,
                         .rate = static_cast<float>(step.learning_rate),
                         .momentum = momentum_};
  }

 private:
  const float momentum_;
  const bool nesterov_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeSgd(const SgdConfig& config) {
  if (config.momentum() == 0) return std::make_unique<Sgd>();
  return std::make_unique<Momentum>(static_cast<float>(config.momentum()), config.nesterov());
}

}  // namespace psgd
