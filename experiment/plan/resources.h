// What runs that go on at the same time have each to themselves.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"

namespace psgd {

struct Share {
  std::vector<int> cores;
  std::vector<int> gpus;
};

struct ShareOptions {
  std::vector<int> cores;  // that there are
  std::vector<int> gpus;
  int parallel = 1;       // runs at a time
  int cores_per_run = 0;  // 0: as many as there are for each
  int gpus_per_run = 0;
};

// One for each run that goes on at a time: cores and GPUs one after the other, from the front again
// where they are too few for all.
std::vector<Share> Shares(const ShareOptions& options);

// An error where there is not enough for a single run. `machine` for people: "this machine".
absl::Status CheckShares(const ShareOptions& options, const std::string& machine);

// What runs at a time have not to themselves, a sentence each, since their times are then not those
// of runs alone. Empty: nothing.
std::vector<std::string> SharedNotes(const ShareOptions& options, const std::string& machine);

// The cores that this process may run on.
std::vector<int> OwnCores();

}  // namespace psgd
