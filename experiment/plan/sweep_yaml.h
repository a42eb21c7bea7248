// Reads a sweep's YAML file into proto/sweep.proto. Keys of grid, list and random are keys of a
// run's config, launch.KEY, or options of launch.command, as --lr. Their values are checked while
// reading. Errors begin with "path:line:column: ".
#pragma once

#include <string>

#include "common/status.h"
#include "experiment/config/config_yaml.h"
#include "proto/sweep.pb.h"

namespace psgd {

absl::StatusOr<Sweep> LoadSweep(const std::string& path);

// As LoadSweep, from text. `name_for_errors` replaces the path.
absl::StatusOr<Sweep> ParseSweep(std::string text, std::string name_for_errors);

// True for a key that is an option of launch.command.
bool IsOption(const std::string& key);

// Finds the field of a key of grid, list or random: in `launch` if the key begins with "launch." or
// is an option, otherwise in `config`.
absl::StatusOr<ConfigKey> FindSetting(const std::string& key, Config* config, SweepLaunch* launch);

// Sets one key of grid, list or random. An option's value replaces the one that the command has, or
// the option goes to the command's end. The error begins with the key and value.
absl::Status ApplySetting(const std::string& key, const std::string& value, Config* config,
                          SweepLaunch* launch);

}  // namespace psgd
