// One run on this machine, from the start of its processes to their end: ps-run is little more.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "common/status.h"
#include "experiment/launch/launcher.h"
#include "experiment/launch/progress.h"
#include "proto/control.pb.h"
#include "worker/control_client.h"

namespace psgd {

// Of all programs of psgd: docs/programs.md.
inline constexpr int kExitUsersFault = 2;
inline constexpr int kExitStopped = 3;

struct LocalRunOptions {
  LaunchOptions launch;
  Config config;  // resolved and valid
  ProgressOptions progress;
  std::shared_ptr<const Credentials> credentials;  // of an admin, with launch.tls_dir
  const std::atomic<int>* stops = nullptr;         // once drains, twice kills
};

// Not thread-safe; leaves no process behind.
class LocalRun {
 public:
  explicit LocalRun(LocalRunOptions options);

  // OK: every epoch is done. CANCELLED: stopped as asked, and it can be resumed. INVALID_ARGUMENT:
  // the config or the data are at fault. Else the run failed; the message says how, by whom and
  // what to do.
  absl::Status Run();

  // Empty: there was no server to make one.
  const std::string& run_dir() const { return run_dir_; }
  int workers_lost() const { return workers_lost_; }

 private:
  static constexpr int kMostRecoveries = 3;  // of no avail, one after the other

  absl::Status StartWorkers();
  absl::Status Supervise();
  // Looks once at everything; a failure ends the run at once.
  absl::Status Look();
  void Poll();
  // Failures of those who still run but do not do what they should.
  absl::Status CheckDeadlines();
  void BuryWorkers();
  void BuryWorker(const ChildProcess& worker);
  void ShowNewcomers();
  // Servers that are away while it is to stop.
  void ShowStopWaits();
  void Drain(const std::string& reason, bool failed);
  absl::Status ServerEnded();
  absl::Status CheckpointsWritten() const;
  // It died, and its journal says how to go on.
  bool MayRecover() const;
  absl::Status RecoverServer();
  absl::Status StartServers();
  // Servers can take each other's place.
  bool HasCopies() const { return !cluster_->etcd().empty(); }
  // Another server leads.
  void TakenOver(Time since);
  // Those that died go on with what is on their disks, or the run fails.
  absl::Status RestartServers();
  void ShowTroubles();
  absl::Status Failed(std::string what);
  // What etcd holds of a run whose servers were killed, for people; empty: nothing.
  std::string KeysLeft() const;
  void WaitForWorkers();
  // Evaluations and choices of codecs that were not seen while the run went.
  void ShowTheLast();
  bool AnyoneLives() const;
  int stops() const { return options_.stops == nullptr ? 0 : options_.stops->load(); }

  const LocalRunOptions options_;
  const Time start_;
  ProgressDisplay display_;
  std::unique_ptr<LocalCluster> cluster_;
  std::unique_ptr<ControlClient> client_;
  std::string run_dir_;

  StatusReply status_;                      // as last heard
  std::optional<uint64_t> samples_before_;  // as first heard: of what was trained before a resume
  Time last_heard_{};
  Time last_going_on_{};          // when the run was last not over
  std::set<std::string> buried_;  // names of workers that ended
  std::set<std::string> known_;   // workers that people were told of
  int workers_lost_ = 0;
  int fruitless_recoveries_ = 0;  // since the clock last moved
  int fruitless_restarts_ = 0;    // of the other servers, since one last came back
  Time next_restart_{};           // not before that
  std::vector<size_t> dead_;      // servers that are to be started again
  uint64_t recovered_at_clock_ = 0;
  bool config_at_fault_ = false;
  std::string drain_reason_;  // not empty: the server is to drain
  bool drain_failed_ = false;
  bool drain_sent_ = false;
  std::string stop_waits_for_;  // that people were told of
  std::string waits_for_;       // likewise
  std::string failed_checkpoint_;
};

}  // namespace psgd
