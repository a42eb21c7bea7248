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
    case OptimizerConfig::kMuon:
      return MakeMuon(config.muon());
    default:  // also `worker`: at a rate of 1 the pushes are what to subtract
      return MakeSgd(config.sgd());
  }
}

HyperParameters FirstHyper(const OptimizerConfig& optimizer) {
  HyperParameters hyper;
  hyper.set_version(1);
  const auto of = [&](const auto& kind) {
    hyper.set_learning_rate(kind.learning_rate());
    if constexpr (requires { kind.weight_decay(); }) hyper.set_weight_decay(kind.weight_decay());
    return hyper;
  };
  switch (optimizer.kind_case()) {
    case OptimizerConfig::kAdagrad:
      return of(optimizer.adagrad());
    case OptimizerConfig::kAdam:
      return of(optimizer.adam());
    case OptimizerConfig::kAdamw:
      return of(optimizer.adamw());
    case OptimizerConfig::kDelayedNesterov:
      return of(optimizer.delayed_nesterov());
    case OptimizerConfig::kLars:
      return of(optimizer.lars());
    case OptimizerConfig::kLamb:
      return of(optimizer.lamb());
    case OptimizerConfig::kMuon:
      return of(optimizer.muon());
    case OptimizerConfig::kWorker:
      hyper.set_learning_rate(1);  // the worker pushes what is to be subtracted
      return hyper;
    default:
      return of(optimizer.sgd());
  }
}

}  // namespace psgd
