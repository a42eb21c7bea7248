// The command of one run of a sweep.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "experiment/sweep/expand.h"
#include "experiment/sweep/linked_hosts.h"
#include "experiment/sweep/resources.h"
#include "experiment/sweep/sweep_dir.h"

namespace psgd {

struct RunCommand {
  std::vector<std::string> argv;
  std::unique_ptr<LinkedHosts> hosts;  // live as long as the run does
};

// `resume`: goes on with what its run directory holds. `slot`: the number of the share, for names that no
// other run uses at the same time.
absl::StatusOr<RunCommand> CommandOf(const SweepDir& dir, const PlannedRun& run, const Share& share,
                                     bool resume, int slot);

}  // namespace psgd
