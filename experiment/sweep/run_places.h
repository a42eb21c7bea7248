// Where the runs of a sweep are computed: on this machine, as jobs of a Slurm cluster, or on
// machines that ssh reaches.
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

// What to start here for a run; it ends as the run does.
struct RunCommand {
  std::vector<std::string> argv;
  std::vector<int> cores;              // that it may run on; empty: all
  bool is_ps_run = true;               // what it says belongs into the run's log
  bool listens = false;                // to what it is told on its standard input
  bool takes_lock = false;             // of the run, by itself, where the run is
  std::unique_ptr<LinkedHosts> hosts;  // live as long as the run does
};

// Each slot has one run at a time. Not thread-safe.
class RunPlaces {
 public:
  virtual ~RunPlaces() = default;

  virtual size_t slots() const = 0;
  // Called again and again. An error where nothing can be computed anywhere, and will not be.
  virtual absl::Status Look() { return absl::OkStatus(); }
  // What there is to tell of the places since this was last asked.
  virtual std::vector<std::string> TakeNews() { return {}; }
  // Whether a run can be started there now.
  virtual bool Usable(size_t) const { return true; }
  // " on host", for people; empty: it goes without saying.
  virtual std::string Where(size_t) const { return ""; }

  // Whether an earlier sitting left it going on, which its lock does not tell.
  virtual absl::StatusOr<bool> StillRuns(const PlannedRun&) { return false; }
  // `resume`: it goes on with what its run directory holds. An error is the run's own.
  virtual absl::StatusOr<RunCommand> Command(const PlannedRun& run, size_t slot, bool resume) = 0;
  // Called again and again while it runs.
  virtual void Attend(ChildProcess&) {}
  // As Ctrl-C does: with a checkpoint, or at once.
  virtual void Stop(const PlannedRun& run, ChildProcess& child, bool at_once) = 0;
  // Why it was the place that ended and not the run, which can go on elsewhere. REQUIRES:
  // !child.Running().
  virtual std::optional<std::string> Lost(size_t, const ChildProcess&) { return std::nullopt; }
};

}  // namespace psgd
