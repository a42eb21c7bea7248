// Where the runs of a sweep execute: on this machine, as jobs of a Slurm cluster, or on machines
// reached by ssh.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "experiment/launch/child_process.h"
#include "experiment/plan/expand.h"
#include "experiment/sweep/linked_hosts.h"

namespace psgd {

// The local command of a run; it ends when the run ends.
struct RunCommand {
  std::vector<std::string> argv;
  std::vector<int> cores;              // cores that it may use; empty: all
  bool is_ps_run = true;               // its output belongs in the run's log
  bool listens = false;                // it reads commands from its standard input
  bool takes_lock = false;             // it takes the run's lock itself, where the run executes
  std::unique_ptr<LinkedHosts> hosts;  // live as long as the run
};

// Each slot takes one run at a time. Not thread-safe.
class RunPlaces {
 public:
  virtual ~RunPlaces() = default;

  virtual size_t slots() const = 0;
  // Called repeatedly. Fails if no place can be used, now or later.
  virtual absl::Status Look() { return absl::OkStatus(); }
  // Takes the news about the places since the last call.
  virtual std::vector<std::string> TakeNews() { return {}; }
  // Whether a run can start there now.
  virtual bool Usable(size_t) const { return true; }
  // " on host", for people; empty: obvious.
  virtual std::string Where(size_t) const { return ""; }

  // Whether a run of an earlier ps-sweep still executes, if its lock cannot tell.
  virtual absl::StatusOr<bool> StillRuns(const PlannedRun&) { return false; }
  // `resume`: the run continues from its run directory. An error concerns only this run.
  virtual absl::StatusOr<RunCommand> Command(const PlannedRun& run, size_t slot, bool resume) = 0;
  // Called repeatedly while the run executes.
  virtual void Attend(ChildProcess&) {}
  // Stops the run like Ctrl-C: with a checkpoint, or at once.
  virtual void Stop(const PlannedRun& run, ChildProcess& child, bool at_once) = 0;
  // Returns why the place failed, if the run can go on elsewhere. Nothing: the run itself failed.
  // REQUIRES: !child.Running().
  virtual std::optional<std::string> Lost(size_t, const ChildProcess&) { return std::nullopt; }
};

}  // namespace psgd
