#include "experiment/plan/dense_twin.h"

#include <utility>

#include "absl/strings/match.h"
#include "experiment/config/config_yaml.h"
#include "proto/local_steps.h"

namespace psgd {

Config ExchangeInEachStep(Config config) {
  const LocalConfig local = ResolveDefaults(config).local();
  if (local.SerializeAsString() == ResolveDefaults({}).local().SerializeAsString()) return config;
  config.clear_local();
  if (config.model().has_client()) return config;  // the program has the local optimizer
  *config.mutable_optimizer() = local.optimizer();
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
