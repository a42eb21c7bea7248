#include "experiment/config/validate_local.h"

#include "absl/strings/str_cat.h"
#include "experiment/config/config_yaml.h"
#include "optimizers/optimizer.h"
#include "proto/local_steps.h"

namespace psgd {
namespace {

using Problems = std::vector<std::string>;

void CheckCodec(const CodecConfig& codec, const std::string& key, bool fragments,
                Problems* problems) {
  if (codec.has_dgc()) {
    problems->push_back(absl::StrCat(
        key,
        ": dgc keeps a momentum of single steps, and with local.steps a push has many: choose "
        "topk or chunked, and give the momentum to local.optimizer"));
  }
  if (codec.has_factors()) {
    problems->push_back(absl::StrCat(
        key,
        ": factors are of a single step's gradient, and with local.steps a push has what many "
        "steps changed: choose another codec, as powersgd"));
  }
  if (codec.has_auto_() && fragments) {
    problems->push_back(absl::StrCat(
        key,
        ": auto tries codecs on whole tensors, and local.fragments sends parts: name a codec, "
        "or set local.fragments to 1"));
  }
}

bool HasOwnOptimizer(const LocalConfig& local) {
  const LocalConfig usual = ResolveDefaults({}).local();
  return local.has_optimizer() &&
         (local.optimizer().SerializeAsString() != usual.optimizer().SerializeAsString() ||
          local.schedule().SerializeAsString() != usual.schedule().SerializeAsString());
}

bool HasOwnMost(const LocalConfig& local) {
  return local.most() != ResolveDefaults({}).local().most();
}

void CheckLeast(const Config& config, Problems* problems) {
  const LocalConfig& local = config.local();
  if (local.least() == 0) return;
  if (config.model().has_client()) {
    problems->emplace_back(
        "local.least follows local.schedule, and with model: client programs have the schedule: "
        "leave local.least out");
    return;
  }
  if (local.least() >= StepsBetweenExchanges(local)) {
    problems->push_back(absl::StrCat(
        "local.least is ", local.least(), ", and the steps between two exchanges grow from it to ",
        StepsBetweenExchanges(local), ": lower local.least, as to 4, or leave it out"));
  }
  if (local.least() < local.fragments()) {
    problems->push_back(absl::StrCat("local.least is ", local.least(), ", and there are ",
                                     local.fragments(),
                                     " fragments: each needs at least one step, so raise "
                                     "local.least or lower local.fragments"));
  }
  if (local.schedule().decay_case() == ScheduleConfig::DECAY_NOT_SET ||
      local.schedule().has_constant()) {
    problems->emplace_back(
        "local.least: steps grow as local.schedule lowers the rate, and it does not: set "
        "local.schedule, as {cosine: {}}, or leave local.least out");
  }
}

void CheckUnused(const LocalConfig& local, Problems* problems) {
  if (KeepsOwnWeights(local) || HasOwnOptimizer(local) || HasOwnMost(local) || local.least() != 0) {
    problems->emplace_back(
        "local.steps is 1, so each step is an exchange and the other keys of local do nothing: set "
        "local.steps, as 30, or leave local out");
  }
}

}  // namespace

void CheckLocal(const Config& config, Problems* problems) {
  const LocalConfig& local = config.local();
  if (!TakesLocalSteps(local)) return CheckUnused(local, problems);
  const int32_t steps = StepsBetweenExchanges(local);
  if (local.steps() != 0 && HasOwnMost(local)) {
    problems->push_back(absl::StrCat("local.most bounds local.steps: auto, and local.steps is ",
                                     local.steps(), ": leave local.most out"));
  }
  if (local.fragments() > steps) {
    problems->push_back(absl::StrCat("local.fragments is ", local.fragments(), ", and there are ",
                                     steps,
                                     " local steps: each fragment needs at least one, so lower "
                                     "local.fragments or raise local.steps"));
  }
  CheckLeast(config, problems);
  const auto of_clock = static_cast<int32_t>(StepsOfClock(local));
  if (local.delay() > 0 && local.delay() >= of_clock) {
    problems->push_back(absl::StrCat(
        "local.delay is ", local.delay(), ", and the next exchange begins after ", of_clock,
        local.fragments() > 1 ? " steps (local.steps / local.fragments)" : " steps",
        ": lower local.delay"));
  }
  if (local.optimizer().has_worker() || local.optimizer().has_delayed_nesterov()) {
    problems->emplace_back(
        "local.optimizer must be one that makes updates from gradients: choose sgd, adam, adamw, "
        "adagrad, lars, lamb or muon");
  }
  if (local.optimizer().sgd().nesterov() && local.optimizer().sgd().momentum() == 0) {
    problems->emplace_back(
        "local.optimizer.sgd.nesterov needs a momentum: set local.optimizer.sgd.momentum, as 0.9");
  }
  if (FirstHyper(config.optimizer()).weight_decay() != 0) {
    problems->emplace_back(
        "optimizer has a weight_decay, and with local.steps the shards' optimizer gets what "
        "weights "
        "moved by: set local.optimizer.*.weight_decay instead");
  }
  if (config.consistency().compensation() == ConsistencyConfig::DELAY) {
    problems->emplace_back(
        "consistency.compensation delay corrects gradients, and with local.steps the updates are "
        "differences of weights: set it to none or scale");
  }
  if (config.consistency().reduction() == ConsistencyConfig::SUM) {
    problems->emplace_back(
        "consistency.reduction sum adds the whole weight changes of all workers, which moves too "
        "far: set it to mean, and the rate of optimizer higher if that is wanted");
  }
  if (config.consistency().pull_ahead()) {
    problems->emplace_back(
        "consistency.pull_ahead brings weights that lack this worker's last local steps: leave it "
        "out, and hide the exchange with local.delay");
  }
  if (config.model().has_client()) {
    if (KeepsOwnWeights(local)) {
      problems->emplace_back(
          "local.fragments, local.delay and local.mix are of ps-worker's own training, and with "
          "model: client programs train: leave them out");
    }
    if (HasOwnOptimizer(local)) {
      problems->emplace_back(
          "local.optimizer and local.schedule are of ps-worker's own training, and with model: "
          "client programs have them: leave them out, and set the rate in the program");
    }
  }
  CheckCodec(config.compression().push(), "compression.push", local.fragments() > 1, problems);
  for (int i = 0; i < config.compression().rules_size(); ++i) {
    CheckCodec(config.compression().rules(i).push(),
               absl::StrCat("compression.rules[", i, "].push"), local.fragments() > 1, problems);
  }
}

}  // namespace psgd
