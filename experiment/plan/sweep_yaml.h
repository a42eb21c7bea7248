// A sweep as people write it: YAML onto proto/sweep.proto. Keys of grid, list and random are those
// of a run's config, or launch.KEY, and are checked with their values as they are read: an error
// begins with "path:line:column: ".
#pragma once

#include <string>

#include "common/status.h"
#include "experiment/config/config_key.h"
#include "proto/sweep.pb.h"

namespace psgd {

absl::StatusOr<Sweep> LoadSweep(const std::string& path);

// As LoadSweep, from text; `name_for_errors` stands where the path would.
absl::StatusOr<Sweep> ParseSweep(std::string text, std::string name_for_errors);

// Where a key of grid, list or random has its value: in the config or, if it begins with "launch.",
// in the other.
absl::StatusOr<ConfigKey> FindSetting(const std::string& key, Config* config, SweepLaunch* launch);

// Sets one key of grid, list or random. The error begins with the key and the value.
absl::Status ApplySetting(const std::string& key, const std::string& value, Config* config,
                          SweepLaunch* launch);

}  // namespace psgd
