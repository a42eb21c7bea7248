#include "experiment/record/run_config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/cores.h"
#include "experiment/config/config_yaml.h"
#include "experiment/config/flat_config.h"
#include "experiment/record/run_dir.h"
#include "experiment/record/summary.h"
#include "optimizers/optimizer.h"

namespace psgd {
namespace {

constexpr int kMostShards = 1024;  // as the schema says

// Relative paths are relative to the program's current folder, but a run's files are read from
// anywhere. REQUIRES: a resolved config.
absl::Status MakePathsAbsolute(Config* config) {
  const auto make = [](const char* key, std::string* path) -> absl::Status {
    if (path->empty()) return absl::OkStatus();
    std::error_code error;
    *path = std::filesystem::absolute(*path, error).string();
    if (!error) return absl::OkStatus();
    return InvalidArgumentError(
        key, ": the current folder, from which it would be meant, cannot be found (",
        error.message(), "); give an absolute path, or start from another folder");
  };
  if (config->model().has_onnx()) {
    PSGD_RETURN_IF_ERROR(make("model.onnx", config->mutable_model()->mutable_onnx()));
  }
  DataConfig& data = *config->mutable_data();
  PSGD_RETURN_IF_ERROR(make("data.path", data.mutable_path()));
  return make("data.table.test", data.mutable_table()->mutable_test());
}

}  // namespace

absl::StatusOr<Config> ReadRunConfig(const RunChoice& choice, std::vector<std::string>* notes) {
  const std::string path =
      choice.resume.empty() ? choice.config : RunDir(choice.resume).ConfigFile();
  PSGD_ASSIGN_OR_RETURN(Config config, LoadConfig(path, choice.set, notes));
  if (!choice.shards.empty() &&
      !ApplySet(absl::StrCat("cluster.shards=", choice.shards), &config).ok()) {
    return InvalidArgumentError("--shards ", choice.shards, ": expected a whole number from 1 to ",
                                kMostShards, ", or auto");
  }
  // A name is a folder's, and a word of commands. Runs of earlier versions may have any name.
  if (choice.resume.empty() && (config.name().starts_with('.') || config.name().starts_with('-'))) {
    return InvalidArgumentError(path, ": name: \"", config.name(),
                                "\" begins with a dot or a dash; begin with a letter or a digit");
  }
  if (choice.workers > 0) config.mutable_cluster()->set_workers(choice.workers);
  config = ResolveDefaults(std::move(config));
  if (config.cluster().shards() == 0) {
    if (choice.simulated) {
      return absl::InvalidArgumentError(
          "cluster.shards is auto, which depends on the servers' cores: say how many with "
          "--shards");
    }
    ClusterConfig* const cluster = config.mutable_cluster();
    cluster->set_shards(std::min(kMostShards, ShardsFor(UsableCores()) * cluster->servers()));
  }
  PSGD_RETURN_IF_ERROR(ValidateConfig(config));
  PSGD_RETURN_IF_ERROR(MakePathsAbsolute(&config));
  return config;
}

std::vector<std::string> ArgumentsOfServer(const RunChoice& choice) {
  std::vector<std::string> arguments;
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) arguments.push_back(absl::StrCat(option, "=", value));
  };
  add("--config", choice.config);
  add("--resume", choice.resume);
  add("--checkpoint", choice.checkpoint);
  add("--run-dir", choice.run_dir);
  for (const std::string& assignment : choice.set) add("--set", assignment);
  add("--shards", choice.shards);
  if (choice.workers > 0) add("--workers", absl::StrCat(choice.workers));
  return arguments;
}

absl::Status CheckUnfinished(const std::string& run_dir, const Config& config) {
  if (config.model().has_client()) return absl::OkStatus();  // its program says for how long
  const auto summary = ReadSummary(RunDir(run_dir).SummaryFile());
  if (!summary.ok() || summary->status != Summary::Status::kFinished) return absl::OkStatus();
  if (config.train().max_steps() > 0 || summary->epochs < config.train().epochs() - 1e-6) {
    return absl::OkStatus();
  }
  const int trained = static_cast<int>(std::ceil(summary->epochs - 1e-6));
  const bool fewer = trained > config.train().epochs();
  return InvalidArgumentError(
      run_dir, fewer ? " has already trained " : " has finished its ", trained, " epochs",
      fewer ? absl::StrCat(", and train.epochs is ", config.train().epochs()) : std::string(),
      "; to train on, raise them: --set train.epochs=", 2 * trained);
}

std::string ChangedKeys(const Config& before, const Config& now, const std::string& section) {
  const auto keys = [&](const Config& config) {
    std::map<std::string, std::string> values;
    for (const auto& [key, value] : Flatten(config, /*with_defaults=*/true)) {
      if (key == section || absl::StartsWith(key, section + ".")) values[key] = value;
    }
    return values;
  };
  const auto old = keys(before), current = keys(now);
  std::vector<std::string> changes;
  const auto add = [&](const std::string& key) {
    const auto was = old.find(key), is = current.find(key);
    const std::string then = was == old.end() ? "not set" : was->second;
    const std::string today = is == current.end() ? "not set" : is->second;
    if (then != today) changes.push_back(absl::StrCat(key, " is ", today, ", and was ", then));
  };
  add(section);
  if (!changes.empty()) return changes.front();
  for (const auto& [key, value] : current) add(key);
  for (const auto& [key, value] : old) {
    if (!current.contains(key)) add(key);
  }
  return absl::StrJoin(changes, "; ");
}

absl::Status CheckGoesOn(const CheckpointManifest& checkpoint, const Config& config) {
  const bool ends_by_epochs = !config.model().has_client() && config.train().max_steps() == 0;
  if (ends_by_epochs && checkpoint.epoch_progress() > config.train().epochs() + 1e-6) {
    return absl::InvalidArgumentError(
        absl::StrFormat("checkpoint %d is at epoch %.2f, and train.epochs is %d: raise it, or go "
                        "on from an earlier checkpoint (--checkpoint)",
                        checkpoint.id(), checkpoint.epoch_progress(), config.train().epochs()));
  }
  const int batch = checkpoint.config().data().batch();
  if (config.data().batch() != batch) {
    return InvalidArgumentError("data.batch is ", config.data().batch(), ", and was ", batch,
                                " when checkpoint ", checkpoint.id(),
                                " was taken: a run keeps its batches; leave the key out, or begin "
                                "a new run");
  }
  const auto had = MakeOptimizer(checkpoint.config().optimizer());
  const auto needs = MakeOptimizer(config.optimizer());
  for (int i = 0; i < needs->state_arrays(); ++i) {
    bool found = false;
    for (int k = 0; k < had->state_arrays(); ++k)
      found |= had->state_name(k) == needs->state_name(i);
    if (found) continue;
    return InvalidArgumentError("checkpoint ", checkpoint.id(),
                                " was taken with another optimizer, and has no ",
                                std::string(needs->state_name(i)), ": ",
                                ChangedKeys(checkpoint.config(), config, "optimizer"),
                                "; keep what it was, or begin a new run with the new one");
  }
  return absl::OkStatus();
}

}  // namespace psgd
