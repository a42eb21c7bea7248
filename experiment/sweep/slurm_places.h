// Runs as heterogeneous jobs of a Slurm cluster: one part for the server, one for the workers.
#pragma once

#include <string>
#include <vector>

#include "experiment/plan/sweep_dir.h"
#include "experiment/sweep/run_places.h"

namespace psgd {

struct SlurmOptions {
  int jobs = 1;   // at a time
  int cores = 1;  // of a job, for its workers
  // Extra words for sbatch, for the server's part and for the workers' part.
  std::vector<std::string> server;
  std::vector<std::string> workers;
  std::string gpus;  // of each worker, as the worker sees them; empty: CPUs
};

class SlurmPlaces : public RunPlaces {
 public:
  SlurmPlaces(SweepDir dir, SlurmOptions options)
      : dir_(std::move(dir)), options_(std::move(options)) {}

  size_t slots() const override { return static_cast<size_t>(options_.jobs); }
  // Fails if Slurm does not answer.
  absl::StatusOr<bool> StillRuns(const PlannedRun& run) override;
  absl::StatusOr<RunCommand> Command(const PlannedRun& run, size_t slot, bool resume) override;
  // A job that has not begun is cancelled.
  void Stop(const PlannedRun& run, ChildProcess& child, bool at_once) override;

 private:
  const SweepDir dir_;
  const SlurmOptions options_;
};

}  // namespace psgd
