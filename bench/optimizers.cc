#include "bench/optimizers.h"

#include "absl/strings/str_join.h"
#include "common/suggest.h"

namespace psgd {
namespace {

constexpr double kWeightDecay = 0.1;  // of adamw and lamb

}  // namespace

std::vector<NamedOptimizer> AllOptimizers() {
  std::vector<NamedOptimizer> all = {
      {"sgd", {}},   {"momentum", {}},         {"nesterov", {}}, {"adagrad", {}}, {"adam", {}},
      {"adamw", {}}, {"delayed_nesterov", {}}, {"lars", {}},     {"lamb", {}}};
  all[0].config.mutable_sgd();
  all[1].config.mutable_sgd()->set_momentum(0.9);
  all[2].config.mutable_sgd()->set_momentum(0.9);
  all[2].config.mutable_sgd()->set_nesterov(true);
  all[3].config.mutable_adagrad();
  all[4].config.mutable_adam();
  all[5].config.mutable_adamw()->set_weight_decay(kWeightDecay);
  all[6].config.mutable_delayed_nesterov()->set_every(2);
  all[6].config.mutable_delayed_nesterov()->set_spread(0.5);
  all[7].config.mutable_lars()->set_trust(1);
  all[8].config.mutable_lamb()->set_weight_decay(kWeightDecay);
  return all;
}

absl::StatusOr<OptimizerConfig> OptimizerNamed(const std::string& name) {
  std::vector<std::string> known;
  for (const NamedOptimizer& optimizer : AllOptimizers()) {
    if (optimizer.name == name) return optimizer.config;
    known.push_back(optimizer.name);
  }
  return InvalidArgumentError("unknown optimizer ", name, Suggest(name, known),
                              " (there are: ", absl::StrJoin(known, ", "), ")");
}

}  // namespace psgd
