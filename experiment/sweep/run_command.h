// The ps-run command of one run of a sweep, the same for every launcher.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "experiment/plan/expand.h"
#include "experiment/plan/resources.h"
#include "experiment/plan/sweep_dir.h"

namespace psgd {

// Writes the config file for ps-run. `gpus` is a list such as 0,1; empty: the run uses CPUs.
absl::StatusOr<std::vector<std::string>> PsRunCommand(const SweepDir& dir, const PlannedRun& run,
                                                      int threads, const std::string& gpus,
                                                      bool resume);

// Takes the cores and GPUs from `share`.
absl::StatusOr<std::vector<std::string>> PsRunCommand(const SweepDir& dir, const PlannedRun& run,
                                                      const Share& share, bool resume);

// Threads of each worker, if the run has `cores` cores.
int ThreadsOf(const PlannedRun& run, int cores);

}  // namespace psgd
