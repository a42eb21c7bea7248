// Executes the runs of a sweep, some at a time, each as a ps-run. All state is in files
// (sweep_dir.h), so ps-sweep may die at any moment: the next one skips finished runs, continues
// begun runs and starts the rest.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
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
  std::vector<std::string> notes;           // shown before the sweep begins
  const std::atomic<int>* stops = nullptr;  // 1: runs drain; 2: runs end at once
  SweepDisplayOptions display;
};

// Not thread-safe. The runs end when the thread that called Run ends.
class SweepRunner {
 public:
  // `places` must outlive this object.
  SweepRunner(SweepRunnerOptions options, std::vector<PlannedRun> runs, RunPlaces* places);

  // OK: every run finished or was stopped early. CANCELLED: stopped on request. Otherwise runs
  // failed.
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
    std::optional<Time> ended;  // when the child exited with 0
    std::unique_ptr<MetricsFollower> metrics;
  };

  // Forgets outcomes of earlier ps-sweeps that no longer count.
  absl::Status ForgetWhatIsRepeated();
  // Reads what is known of each run, in the order of the plan.
  absl::Status TakeStock();
  absl::Status StartRuns();
  // Returns false if processes of an earlier ps-sweep still hold the run's lock.
  absl::StatusOr<bool> Start(const PlannedRun& run, size_t slot);
  absl::Status StartChild(Active* active);
  absl::Status ReapEnded();
  // True while the summary of a run that ended well may still arrive.
  bool IsSettling(Active* active) const;
  absl::Status Ended(Active& active);
  // Puts a run whose place was lost back into the queue.
  void PutElsewhere(const Active& active, const std::string& why);
  void Wait(const PlannedRun& run);
  // Shows what the run's program or its server found odd, of each configuration once.
  void TellNote(const PlannedRun& run);
  void Fail(const PlannedRun& run, const std::string& detail);
  // Says early that no run is likely to succeed. `run` has failed.
  void TellIfNoneBegins(const Active& run, const std::string& why);
  void FollowMetrics();
  // Stops the sweep if what asha compares is not measured.
  void CheckMeasured(const Active& active, bool ended);
  // Counts a run that ended well: finished, or stopped if asha decides so at its rungs.
  void CountDone(const PlannedRun& run, const MetricsFollower& metrics);
  // Returns false if asha stops the run. The decision is then on disk.
  bool GoesOn(const PlannedRun& run, const MetricsFollower& metrics);
  void PassOnStops();
  void Show();
  int stops() const {
    const int asked = options_.stops == nullptr ? 0 : options_.stops->load();
    return broken_.ok() ? asked : std::max(1, asked);
  }
  bool SlotIsFree(size_t slot) const;

  const SweepRunnerOptions options_;
  const std::vector<PlannedRun> runs_;
  const SweepDir dir_;
  RunPlaces& places_;
  SweepDisplay display_;
  std::optional<Rungs> rungs_;
  std::deque<const PlannedRun*> waiting_;
  std::vector<std::unique_ptr<Active>> active_;
  std::map<std::string, int> lost_places_;  // by the run's id
  SweepCounts counts_;
  int passed_stops_ = 0;
  double seconds_ended_ = 0;  // of the runs that ended in this ps-sweep
  size_t ended_ = 0;
  std::vector<EndedRun> last_ended_;   // finished or stopped early, for the table
  std::vector<EndedRun> last_failed_;  // also before this ps-sweep
  std::set<std::string> failures_;     // why runs failed, also before this ps-sweep
  size_t unbegun_ = 0;                 // failed before training
  std::set<std::pair<std::string, std::string>> noted_;  // configuration and note
  absl::Status broken_;                                  // why the sweep stops by itself
  bool told_of_locks_ = false;
  Time looked_{};
};

}  // namespace psgd
