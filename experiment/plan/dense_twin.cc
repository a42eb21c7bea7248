#include "experiment/plan/dense_twin.h"

#include <utility>

#include "absl/strings/match.h"
#include "experiment/config/config_yaml.h"
#include "proto/local_steps.h"

namespace psgd {

namespace {

// Shards cannot do what muon does. Its rate and decay suit adamw, too.
AdamConfig LikeMuon(const MuonConfig& muon) {
  AdamConfig adamw;
  adamw.set_learning_rate(muon.learning_rate());
  adamw.set_beta1(muon.beta1());
  adamw.set_beta2(muon.beta2());
  adamw.set_epsilon(muon.epsilon());
  adamw.set_weight_decay(muon.weight_decay());
  return adamw;
}

}  // namespace

Config ExchangeInEachStep(Config config) {
  const LocalConfig local = ResolveDefaults(config).local();
  if (local.SerializeAsString() == ResolveDefaults({}).local().SerializeAsString()) return config;
  config.clear_local();
  if (config.model().has_client()) return config;  // the program has the local optimizer
  *config.mutable_optimizer() = local.optimizer();
  if (local.optimizer().has_muon())
    *config.mutable_optimizer()->mutable_adamw() = LikeMuon(local.optimizer().muon());
  *config.mutable_schedule() = local.schedule();
  return config;
}

Config DenseTwin(Config config) {
  CompressionConfig* compression = config.mutable_compression();
  compression->mutable_push()->mutable_none();
  compression->mutable_pull()->mutable_none();
  compression->mutable_lossless()->mutable_none();
  compression->clear_rules();
  ConsistencyConfig* consistency = config.mutable_consistency();
  consistency->set_staleness(0);
  consistency->set_compensation(ConsistencyConfig::NONE);
  consistency->set_pull_ahead(false);
  consistency->clear_quorum();
  consistency->clear_grace();
  return ResolveDefaults(ExchangeInEachStep(std::move(config)));
}

bool IsDenseSynchronous(const Config& config) {
  const CompressionConfig& compression = config.compression();
  for (const CompressionRule& rule : compression.rules()) {
    if (rule.has_push() && !rule.push().has_none()) return false;
  }
  const bool dense = (!compression.has_push() || compression.push().has_none()) &&
                     (!compression.has_pull() || compression.pull().has_none()) &&
                     (!compression.has_lossless() || compression.lossless().has_none());
  return dense && config.consistency().staleness() == 0 && !config.consistency().pull_ahead() &&
         config.consistency().quorum() == 0 && !TakesLocalSteps(config.local());
}

bool IsAboutUpdates(absl::string_view key) {
  // The weight of an update belongs to the task, as the learning rate does.
  if (key == "consistency.reduction") return false;
  return absl::StartsWith(key, "compression") || absl::StartsWith(key, "consistency") ||
         absl::StartsWith(key, "local");
}

}  // namespace psgd
