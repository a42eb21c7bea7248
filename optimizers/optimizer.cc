#include "optimizers/optimizer.h"

#include <cassert>

#include "optimizers/optimizers.h"

namespace psgd {

void Optimizer::ApplySparse(const OptimizerStep&, const SparseUpdate&) const {
  assert(false && "this optimizer has no sparse form");
}

std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerConfig& config, int workers) {
  switch (config.kind_case()) {
    case OptimizerConfig::kAdagrad:
      return MakeAdagrad(config.adagrad());
    case OptimizerConfig::kAdam:
      return MakeAdam(config.adam(), /*decoupled=*/false);
    case OptimizerConfig::kAdamw:
      return MakeAdam(config.adamw(), /*decoupled=*/true);
    case OptimizerConfig::kDelayedNesterov:
      return MakeDelayedNesterov(config.delayed_nesterov(), workers);
    case OptimizerConfig::kLars:
      return MakeLars(config.lars());
    case OptimizerConfig::kLamb:
      return MakeLamb(config.lamb());
    default:  // also `worker`: at a rate of 1 the pushes are what to subtract
      return MakeSgd(config.sgd());
  }
}

}  // namespace psgd
