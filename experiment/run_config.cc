#include "experiment/run_config.h"

#include "absl/strings/str_cat.h"
#include "experiment/config_yaml.h"
#include "experiment/run_dir.h"

namespace psgd {

absl::StatusOr<Config> ReadRunConfig(const RunChoice& choice) {
  const std::string path =
      choice.resume.empty() ? choice.config : RunDir(choice.resume).ConfigFile();
  PSGD_ASSIGN_OR_RETURN(Config config, LoadConfig(path));
  for (const std::string& assignment : choice.set) {
    PSGD_RETURN_IF_ERROR(ApplySet(assignment, &config));
  }
  if (choice.shards > 0) config.mutable_cluster()->set_shards(choice.shards);
  if (choice.workers > 0) config.mutable_cluster()->set_workers(choice.workers);
  config = ResolveDefaults(std::move(config));
  PSGD_RETURN_IF_ERROR(ValidateConfig(config));
  return config;
}

std::vector<std::string> ServerArguments(const RunChoice& choice) {
  std::vector<std::string> arguments;
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) arguments.push_back(absl::StrCat(option, "=", value));
  };
  add("--config", choice.config);
  add("--resume", choice.resume);
  add("--checkpoint", choice.checkpoint);
  add("--run-dir", choice.run_dir);
  for (const std::string& assignment : choice.set) add("--set", assignment);
  if (choice.shards > 0) add("--shards", absl::StrCat(choice.shards));
  if (choice.workers > 0) add("--workers", absl::StrCat(choice.workers));
  return arguments;
}

}  // namespace psgd
