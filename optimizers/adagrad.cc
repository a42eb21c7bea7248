#include <cmath>

#include "optimizers/kernels.h"
#include "optimizers/optimizers.h"
#include "optimizers/prefetch.h"

namespace psgd {
namespace {

class Adagrad : public Optimizer {
 public:
  explicit Adagrad(float epsilon) : epsilon_(epsilon) {}
  absl::string_view name() const override { return "adagrad"; }
  int state_arrays() const override { return 1; }
  absl::string_view state_name(int) const override { return "sum"; }
  bool sparse() const override { return true; }

  void ApplyBlock(const OptimizerStep& step, const OptimizerBlock& block) const override {
    Loops().adagrad(static_cast<float>(step.learning_rate), epsilon_, block);
  }
  std::optional<ElementUpdate> ElementUpdateAt(const OptimizerStep& step) const override {
    return ElementUpdate{.kind = ElementUpdate::Kind::kAdagrad,
                         .rate = static_cast<float>(step.learning_rate),
                         .epsilon = epsilon_};
  }

  void ApplySparse(const OptimizerStep& step, const SparseUpdate& update) const override {
    const float rate = static_cast<float>(step.learning_rate);
    for (size_t i = 0; i < update.indices.size(); ++i) {
      PrefetchEntry(update, i, 1);
      const uint32_t at = update.indices[i];
      const float gradient = update.scale * update.values[i];
      const float sum = update.states[0][at] + gradient * gradient;
      update.states[0][at] = sum;
      update.weights[at] -= rate * gradient / (std::sqrt(sum) + epsilon_);
    }
  }

 private:
  const float epsilon_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeAdagrad(const AdagradConfig& config) {
  return std::make_unique<Adagrad>(static_cast<float>(config.epsilon()));
}

}  // namespace psgd
