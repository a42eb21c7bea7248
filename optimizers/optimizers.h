// All optimizers; optimizer.h describes them.
#pragma once

#include <memory>

#include "optimizers/optimizer.h"

namespace psgd {

// sgd, momentum or nesterov, as the config's momentum and nesterov say.
std::unique_ptr<Optimizer> MakeSgd(const SgdConfig& config);
std::unique_ptr<Optimizer> MakeAdagrad(const AdagradConfig& config);
// `decoupled`: adamw.
std::unique_ptr<Optimizer> MakeAdam(const AdamConfig& config, bool decoupled);
// `workers`: N if the config's `every` is 0.
std::unique_ptr<Optimizer> MakeDelayedNesterov(const DelayedNesterovConfig& config, int workers);
std::unique_ptr<Optimizer> MakeLars(const LarsConfig& config);
std::unique_ptr<Optimizer> MakeLamb(const LambConfig& config);
std::unique_ptr<Optimizer> MakeMuon(const MuonConfig& config);

}  // namespace psgd
