// One sweep, from its file to its report. ps-sweep is a thin shell around this.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "common/status.h"

namespace psgd {

struct SweepOptions {
  std::string file;
  std::string dir;  // empty: runs/NAME
  bool dry_run = false;
  int parallel = 1;
  std::string gpu;  // a list such as 0-7
  std::string launcher = "local";
  std::string slurm_server;   // words for sbatch, for the server's part of a job
  std::string slurm_workers;  // the same, for the workers' part
  std::string hosts;          // a list, for the ssh launcher
  std::string hosts_file;
  std::string ssh = "ssh";       // the ssh command, as words
  std::vector<std::string> set;  // settings of every run
  bool retry_failed = false;
  bool json = false;
  bool quiet = false;
  const std::atomic<int>* stops = nullptr;
};

// `output` goes to standard output; it has results even if runs failed. CANCELLED: the sweep was
// stopped on request, and the same command continues it.
struct SweepResult {
  std::string output;
  absl::Status status;
};
SweepResult RunSweep(const SweepOptions& options);

}  // namespace psgd
