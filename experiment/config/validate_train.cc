#include "experiment/config/validate_train.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compression/policy.h"
#include "proto/local_steps.h"

namespace psgd {
namespace {

using Problems = std::vector<std::string>;

void CheckClip(const Config& config, Problems* problems) {
  const ClipConfig& clip = config.train().clip();
  if (clip.norm() == 0 && clip.value() == 0) return;
  if (config.model().has_client()) {
    problems->emplace_back(
        "train.clip is of ps-worker's own training, and with model: client programs train: leave "
        "it out, and clip in the program, as with torch.nn.utils.clip_grad_norm_");
  }
  if (clip.value() > 0 && PushesFactors(config.compression())) {
    problems->emplace_back(
        "train.clip.value bounds the elements of gradients, which compression.push factors never "
        "computes: use train.clip.norm, or another codec");
  }
}

void CheckMicroBatch(const Config& config, Problems* problems) {
  const DataConfig& data = config.data();
  if (data.micro_batch() == 0) return;
  if (config.model().has_client()) {
    problems->emplace_back(
        "data.micro_batch is of ps-worker's own training, and with model: client programs train: "
        "leave it out, and add gradients up in the program");
  } else if (data.batch() % data.micro_batch() != 0) {
    problems->push_back(absl::StrCat("data.batch is ", data.batch(), ", no multiple of the ",
                                     data.micro_batch(),
                                     " samples of data.micro_batch: choose one that divides it"));
  }
}

void CheckGroups(const std::string& key, const OptimizerConfig& optimizer, Problems* problems) {
  for (int i = 0; i < optimizer.groups_size(); ++i) {
    const ParameterGroup& group = optimizer.groups(i);
    const std::string path = absl::StrCat(key, "[", i, "]");
    if (group.match().empty()) {
      problems->push_back(absl::StrCat(path, ".match is missing: say which parameters, as *.bias"));
    }
    if (group.rate() == 1 && !group.has_weight_decay()) {
      problems->push_back(
          absl::StrCat(path, " changes nothing: set its rate, as 0.1, or its weight_decay, as 0"));
    }
  }
}

void CheckGroupsFit(const Config& config, Problems* problems) {
  CheckGroups("optimizer.groups", config.optimizer(), problems);
  CheckGroups("local.optimizer.groups", config.local().optimizer(), problems);
  if (config.optimizer().groups().empty()) return;
  if (config.optimizer().has_worker()) {
    problems->push_back(absl::StrCat(
        "optimizer.groups is of the optimizer of the shards, and with optimizer: worker the "
        "workers have it: ",
        config.model().has_client() ? "leave groups out, and set them in the program"
                                    : "set local.optimizer.groups instead"));
  }
  const bool decays = std::ranges::any_of(
      config.optimizer().groups(), [](const ParameterGroup& g) { return g.has_weight_decay(); });
  if (decays && TakesLocalSteps(config.local())) {
    problems->emplace_back(
        "optimizer.groups has a weight_decay, and with local.steps the shards' optimizer gets what "
        "weights moved by: set local.optimizer.groups instead");
  }
}

}  // namespace

void CheckTrain(const Config& config, Problems* problems) {
  CheckClip(config, problems);
  CheckMicroBatch(config, problems);
  CheckGroupsFit(config, problems);
  if (config.optimizer().has_muon()) {
    problems->emplace_back(
        "optimizer: muon moves whole matrices, and shards have slices of them: choose adamw, or "
        "make it the local.optimizer of a run with local.steps, as 30");
  }
  if (config.train().early_stop().least() > 0 && config.train().early_stop().patience() == 0) {
    problems->emplace_back(
        "train.early_stop.least does nothing without train.early_stop.patience: set that, as 3 "
        "evaluations, or leave it out");
  }
  if (config.durability().keep_best() && !config.durability().has_checkpoint()) {
    problems->emplace_back(
        "durability.keep_best keeps one of the checkpoints, and there is only that at the end: set "
        "durability.checkpoint, as 1 epoch");
  }
}

}  // namespace psgd
