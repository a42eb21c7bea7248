// The command of one run of a sweep: ps-run, the same wherever it is computed.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "experiment/plan/expand.h"
#include "experiment/plan/resources.h"
#include "experiment/plan/sweep_dir.h"

namespace psgd {

// Writes the config that it reads. `gpus`: a list, as 0,1; empty: it computes on processors.
absl::StatusOr<std::vector<std::string>> PsRunCommand(const SweepDir& dir, const PlannedRun& run,
                                                      int threads, const std::string& gpus,
                                                      bool resume);

// With the cores and GPUs of a share.
absl::StatusOr<std::vector<std::string>> PsRunCommand(const SweepDir& dir, const PlannedRun& run,
                                                      const Share& share, bool resume);

// Of each worker, where its run has so many cores.
int ThreadsOf(const PlannedRun& run, int cores);

}  // namespace psgd
