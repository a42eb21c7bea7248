// Divides cores and GPUs among the runs that go on at the same time.
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
  std::vector<int> cores;  // cores of the machine
  std::vector<int> gpus;
  int parallel = 1;       // runs at a time
  int cores_per_run = 0;  // 0: an equal share of the cores
  int gpus_per_run = 0;
};

// Returns a share for each parallel run. Cores and GPUs are given out in order, and again from the
// first if there are too few.
std::vector<Share> Shares(const ShareOptions& options);

// Fails if there are too few for a single run. `machine` is for people: "this machine".
absl::Status CheckShares(const ShareOptions& options, const std::string& machine);

// A sentence for each resource that parallel runs share, because sharing makes their times longer.
// Empty if nothing is shared.
std::vector<std::string> SharedNotes(const ShareOptions& options, const std::string& machine);

// The cores that this process may run on.
std::vector<int> OwnCores();

}  // namespace psgd
