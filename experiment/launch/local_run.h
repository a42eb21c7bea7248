// One run on this machine, from the start of its processes to their end. ps-run is a thin shell
// around this class.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/status.h"
#include "experiment/launch/earlier_results.h"
#include "experiment/launch/launcher.h"
#include "experiment/launch/progress.h"
#include "experiment/launch/resume_advice.h"
#include "experiment/launch/status_notes.h"
#include "proto/control.pb.h"
#include "worker/control_client.h"

namespace psgd {

// Exit codes of all psgd programs: docs/programs.md.
inline constexpr int kExitUsersFault = 2;
inline constexpr int kExitStopped = 3;

struct LocalRunOptions {
  LaunchOptions launch;
  Config config;       // resolved and valid
  std::string resume;  // the directory of the run that goes on; empty: a new run
  ProgressOptions progress;
  std::shared_ptr<const Credentials> credentials;  // an admin's, if launch.tls_dir is set
  const std::atomic<int>* stops = nullptr;         // 1 drains the run, 2 kills it
};

// Not thread-safe. Leaves no process behind.
class LocalRun {
 public:
  explicit LocalRun(LocalRunOptions options);

  // OK: every epoch is done. CANCELLED: the run was stopped on request and can be resumed.
  // INVALID_ARGUMENT: the config or the data are wrong. Otherwise the run failed; the message says
  // what failed and what to do.
  absl::Status Run();

  // The exit code of the first worker that failed, if the workers run a command; 0: none failed.
  int command_exit_code() const { return command_exit_code_; }
  // Empty: no server made a run directory.
  const std::string& run_dir() const { return run_dir_; }
  StartedAs started_as() const;
  // A resumed run trained nothing, so its config and summary are those of before.
  bool is_as_before() const { return is_as_before_; }

 private:
  static constexpr int kMostRecoveries = 3;  // fruitless recoveries in a row

  // Why the run is to end before its time.
  struct Stop {
    std::string reason;  // not empty: the server must drain
    bool failed = false;
    bool config_at_fault = false;  // as the exit code says
    bool sent = false;
  };
  // Servers that ended and are started again.
  struct Recoveries {
    int fruitless = 0;           // of the leader, since the clock last moved
    uint64_t at_clock = 0;       // of the last one
    std::vector<size_t> dead;    // other servers, to restart
    int fruitless_restarts = 0;  // of these, since one last came back
    Time next_restart{};         // the earliest time
  };

  absl::Status StartWorkers();
  // Removes the workers of the earlier ps-run from a run that goes on where its journals end.
  void DismissEarlierWorkers();
  void Dismiss(const WorkerStatus& worker, const std::string& reason);
  absl::Status Supervise();
  // Checks everything once. An error ends the run at once.
  absl::Status Look();
  void Poll();
  // Gets the run's status. False: no answer.
  bool Ask();
  // Fails if a running process misses its deadline.
  absl::Status CheckDeadlines();
  void BuryWorkers();
  void BuryWorker(const ChildProcess& worker, bool state_known);
  // Asks the server to drain, because of the stop.
  void Drain();
  absl::Status ServerEnded();
  // Why the server that ended says that the run failed; empty: it does not say so.
  std::string FailureInSummary() const;
  absl::Status CheckpointsWritten() const;
  // Whether the servers go on together, with etcd, where their journals end. Asked at the end.
  bool GoesOnByJournals() const;
  // True if the leader died and its journal allows a recovery.
  bool MayRecover() const;
  absl::Status RecoverServer();
  absl::Status StartServers();
  // True if the servers can replace each other.
  bool HasCopies() const { return !cluster_->etcd().empty(); }
  // Another server leads the run now.
  void TakenOver(Time since);
  // Restarts dead servers from the data on their disks, or fails the run.
  absl::Status RestartServers();
  absl::Status Failed(std::string what);
  // Writes the results of before back, if nothing was trained since.
  void RestoreEarlier();
  // A finished run that went on has made no more steps.
  bool HadNothingToDo() const;
  // "; worker-0 failed: ...": the note of a worker that explains most. Empty: no worker has a note.
  std::string WhyTheWorkersLeft() const;
  std::string WithAdvice(std::string what) const;
  std::string Advice() const;  // how to go on
  // Tells people which keys etcd still holds for a run whose servers were killed. Empty: none.
  std::string KeysLeft() const;
  void WaitForWorkers();
  // Shows evaluations and codec choices that were made after the last poll.
  void ShowTheLast();
  bool AnyoneLives() const;
  bool IsOver() const;
  int stops() const { return options_.stops == nullptr ? 0 : options_.stops->load(); }

  const LocalRunOptions options_;
  const Time start_;
  const EarlierResults earlier_;
  ProgressDisplay display_;
  StatusNotes notes_;
  std::unique_ptr<LocalCluster> cluster_;
  std::unique_ptr<ControlClient> client_;
  std::string run_dir_;

  StatusReply status_;                      // the last answer
  std::optional<uint64_t> samples_before_;  // trained before a resume: in the first answer
  uint64_t steps_before_ = 0;               // likewise
  bool is_as_before_ = false;
  Time last_heard_{};
  bool told_silence_ = false;     // people know that the leader does not answer
  Time last_going_on_{};          // when the run was last not over
  std::set<std::string> buried_;  // names of workers that ended
  int command_exit_code_ = 0;
  Recoveries recoveries_;
  Stop stop_;
  mutable std::optional<bool> goes_on_by_journals_;  // nothing: not asked yet
};

}  // namespace psgd
