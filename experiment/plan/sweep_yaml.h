// Reads a sweep's YAML file into proto/sweep.proto. Keys of grid, list and random are keys of a
// run's config, or launch.KEY. Their values are checked while reading. Errors begin with
// "path:line:column: ".
#pragma once

#include <string>

#include "common/status.h"
#include "experiment/config/config_yaml.h"
#include "proto/sweep.pb.h"

namespace psgd {

absl::StatusOr<Sweep> LoadSweep(const std::string& path);

// As LoadSweep, from text. `name_for_errors` replaces the path.
absl::StatusOr<Sweep> ParseSweep(std::string text, std::string name_for_errors);

// Finds the field of a key of grid, list or random: in `launch` if the key begins with "launch.",
// otherwise in `config`.
absl::StatusOr<ConfigKey> FindSetting(const std::string& key, Config* config, SweepLaunch* launch);

// Sets one key of grid, list or random. The error begins with the key and value.
absl::Status ApplySetting(const std::string& key, const std::string& value, Config* config,
                          SweepLaunch* launch);

}  // namespace psgd
