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

// Where runs are computed: on this machine, or each as a job of a Slurm cluster.
struct SlurmOptions {
  bool use = false;
  // Further words for sbatch, for the part of the server and for that of the workers.
  std::vector<std::string> server;
  std::vector<std::string> workers;
  std::string gpus;  // of each worker, as it sees them; empty: it computes on processors
};

struct RunCommand {
  std::vector<std::string> argv;
  std::unique_ptr<LinkedHosts> hosts;  // live as long as the run does
};

// ps-run itself; writes the config that it reads.
absl::StatusOr<std::vector<std::string>> PsRunCommand(const SweepDir& dir, const PlannedRun& run,
                                                      int threads, const std::string& gpus,
                                                      bool resume);

// Of each worker, where its run has so many cores.
int ThreadsOf(const PlannedRun& run, int cores);

// `sbatch --wait`, which ends as the job does; it writes to the run's log.
absl::StatusOr<RunCommand> SlurmCommandOf(const SweepDir& dir, const PlannedRun& run,
                                          const SlurmOptions& slurm, int cores, bool resume);

// The name of its job.
std::string SlurmJobName(const PlannedRun& run);
// It waits or goes on. An error where Slurm does not answer.
absl::StatusOr<bool> SlurmHasJob(const PlannedRun& run);
// Asks it to stop with a checkpoint, or ends it at once; one that has not begun never will.
void StopSlurmJob(const PlannedRun& run, bool at_once);

// `resume`: goes on with what its run directory holds. `slot`: the number of the share, for names
// that no other run uses at the same time.
absl::StatusOr<RunCommand> CommandOf(const SweepDir& dir, const PlannedRun& run, const Share& share,
                                     bool resume, int slot);

}  // namespace psgd
