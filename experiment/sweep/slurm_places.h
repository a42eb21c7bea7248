// Runs as heterogeneous jobs of a Slurm cluster: the server's part, and the workers'.
#pragma once

#include <string>
#include <vector>

#include "experiment/plan/sweep_dir.h"
#include "experiment/sweep/run_places.h"

namespace psgd {

struct SlurmOptions {
  int jobs = 1;   // at a time
  int cores = 1;  // of a job, for its workers
  // Further words for sbatch, for the part of the server and for that of the workers.
  std::vector<std::string> server;
  std::vector<std::string> workers;
  std::string gpus;  // of each worker, as it sees them; empty: it computes on processors
};

class SlurmPlaces : public RunPlaces {
 public:
  SlurmPlaces(SweepDir dir, SlurmOptions options)
      : dir_(std::move(dir)), options_(std::move(options)) {}

  size_t slots() const override { return static_cast<size_t>(options_.jobs); }
  // An error where Slurm does not answer.
  absl::StatusOr<bool> StillRuns(const PlannedRun& run) override;
  absl::StatusOr<RunCommand> Command(const PlannedRun& run, size_t slot, bool resume) override;
  // A job that has not begun never will.
  void Stop(const PlannedRun& run, ChildProcess& child, bool at_once) override;

 private:
  const SweepDir dir_;
  const SlurmOptions options_;
};

}  // namespace psgd
