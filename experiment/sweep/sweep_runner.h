// Runs what a sweep asks for, some at a time, each a ps-run. What is known of runs is in files
// (sweep_dir.h), so that it may die at any moment: another one finds what is finished, goes on with
// what was begun, and starts the rest.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "experiment/launch/child_process.h"
#include "experiment/plan/sweep_dir.h"
#include "experiment/report/run_data.h"
#include "experiment/sweep/run_places.h"
#include "experiment/sweep/rungs.h"
#include "experiment/sweep/sweep_display.h"

namespace psgd {

struct SweepRunnerOptions {
  std::string dir;
  bool retry_failed = false;
  std::optional<SweepAsha> asha;
  std::vector<std::string> notes;           // to tell before it begins
  const std::atomic<int>* stops = nullptr;  // once: runs drain; twice: they end at once
  SweepDisplayOptions display;
};

// Not thread-safe: runs end when the thread that called Run does.
class SweepRunner {
 public:
  // `places` outlive it.
  SweepRunner(SweepRunnerOptions options, std::vector<PlannedRun> runs, RunPlaces* places);

  // OK: every run is finished or was stopped early. CANCELLED: stopped as asked. Else some failed.
  absl::Status Run();

 private:
  struct Active {
    const PlannedRun* run = nullptr;
    size_t slot = 0;
    bool resumed = false;
    bool stopped_early = false;
    Time start{};
    std::unique_ptr<HeldLock> lock;
    RunCommand command;
    std::unique_ptr<ChildProcess> child;
    std::optional<Time> ended;  // well, as it says
    std::unique_ptr<MetricsFollower> metrics;
  };

  // Of earlier sittings, where their word does not count any more.
  absl::Status ForgetWhatIsRepeated();
  // What is already known of each run, in the order of the plan.
  absl::Status TakeStock();
  absl::Status StartRuns();
  // False: its lock is still held by processes of an earlier sitting.
  absl::StatusOr<bool> Start(const PlannedRun& run, size_t slot);
  absl::Status StartChild(Active* active);
  absl::Status ReapEnded();
  // Its end is not to be seen here yet.
  bool IsSettling(Active* active) const;
  absl::Status Ended(Active& active);
  // Its place is gone: it waits for another one.
  void PutElsewhere(const Active& active, const std::string& why);
  void Wait(const PlannedRun& run);
  void Fail(const PlannedRun& run, const std::string& detail);
  void FollowMetrics();
  // A run that ended well: finished, or as asha decides of what it did at its rungs.
  void CountDone(const PlannedRun& run, const MetricsFollower& metrics);
  // False: asha says that the run is to stop, which is written down.
  bool GoesOn(const PlannedRun& run, const MetricsFollower& metrics);
  void PassOnStops();
  void Show();
  int stops() const { return options_.stops == nullptr ? 0 : options_.stops->load(); }
  bool SlotIsFree(size_t slot) const;

  const SweepRunnerOptions options_;
  const std::vector<PlannedRun> runs_;
  const SweepDir dir_;
  RunPlaces& places_;
  SweepDisplay display_;
  std::optional<Rungs> rungs_;
  std::deque<const PlannedRun*> waiting_;
  std::vector<std::unique_ptr<Active>> active_;
  std::map<std::string, int> lost_places_;  // of runs by their ids
  SweepCounts counts_;
  int passed_stops_ = 0;
  double seconds_ended_ = 0;  // of the runs that ended in this sitting
  size_t ended_ = 0;
  std::vector<EndedRun> last_ended_;   // well or stopped early, for the table
  std::vector<EndedRun> last_failed_;  // in this sitting or before
  bool told_of_locks_ = false;
  Time looked_{};
};

}  // namespace psgd
