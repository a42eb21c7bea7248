// One sweep, from its file to its report: ps-sweep is little more.
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
  std::string gpu;  // a list, as 0-7
  std::string launcher = "local";
  std::string slurm_server;   // words for sbatch, of the server's part of a job
  std::string slurm_workers;  // and of the workers'
  std::string hosts;          // a list, for ssh
  std::string hosts_file;
  std::string ssh = "ssh";       // its words
  std::vector<std::string> set;  // of every run
  bool retry_failed = false;
  bool json = false;
  bool quiet = false;
  const std::atomic<int>* stops = nullptr;
};

// What to print on standard output: results, which are there also when runs failed. CANCELLED:
// stopped as asked, and the same command goes on.
struct SweepResult {
  std::string output;
  absl::Status status;
};
SweepResult RunSweep(const SweepOptions& options);

}  // namespace psgd
