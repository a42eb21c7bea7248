// A worker's lease: what its heartbeats say, and what their answers mean. A state machine without
// IO, threads or a clock. heartbeat.h drives it with a thread, tests/sim with simulated time.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "proto/control.pb.h"

namespace psgd {

// Not thread-safe.
class LeaseCore {
 public:
  // What an answer says about the servers that the client should ask from now on.
  struct Servers {
    enum What {
      kAsBefore,
      kReplaced,  // `addresses` are all of them, the one that leads the run first
      kAdded,     // `addresses` may answer, too
      kOutdated,  // the server that answered does not know yet that another one leads
    };
    What what = kAsBefore;
    std::vector<std::string> addresses;
    bool another_leads = false;  // another server leads the run than before
  };

  explicit LeaseCore(const JoinReply& joined);

  // The time from one heartbeat to the next. It is shorter after the run's leader changed or a
  // shard moved, because more shards may move soon, and a worker that hears of that late stands
  // still.
  Duration period() const { return soon_ > 0 ? std::min<Duration>(period_, kSoon) : period_; }
  // How long one attempt may take: the lease has room for a second one.
  Duration attempt() const { return attempt_; }

  // What the next heartbeat reports; users add to it.
  WorkerReport& report() { return report_; }
  // The next heartbeat, with what was reported since the last one. REQUIRES: the last was answered.
  HeartbeatRequest Beat();
  // The answer to a heartbeat that was sent at `asked`. It came at `answered`. A failure ends the
  // lease.
  Servers OnAnswer(const absl::StatusOr<HeartbeatReply>& reply, Time asked, Time answered);
  // Takes in what the answer to another call says about the run's leader.
  Servers OnLeaders(const Leaders& leaders);

  // Takes effect unless a newer version is known.
  void SetHyper(const HyperParameters& hyper);
  const HyperParameters& hyper() const { return hyper_; }
  // Where this worker believes the shards to be.
  void SetEndpoints(std::vector<std::string> endpoints) { endpoints_ = std::move(endpoints); }
  // The new endpoints of the shards if they moved since the last call.
  std::optional<std::vector<std::string>> TakeMove() { return std::exchange(moved_, std::nullopt); }
  // The run ends after the segments under way.
  bool drain() const { return drain_; }
  // When the coordinator first asked this worker to leave the run.
  std::optional<Time> leave_asked() const { return leave_asked_; }
  // OK while the lease holds; otherwise why the run goes on without this worker.
  const absl::Status& status() const { return status_; }

 private:
  static constexpr Duration kSoon = std::chrono::milliseconds(100);
  static constexpr int kSoonBeats = 5;

  void CompareClocks(int64_t server_ns, Time asked, Time answered);
  void CompareEndpoints(std::vector<std::string> endpoints);
  // Converts the spans of a report to the server's clock. Keeps them until that clock is known.
  void MoveSpans(WorkerReport* report);

  const WorkerKey key_;
  const Duration period_;
  const Duration attempt_;
  uint64_t beats_ = 0;
  int soon_ = 0;  // so many more heartbeats come soon
  WorkerReport report_;
  HyperParameters hyper_;
  bool drain_ = false;
  uint64_t run_epoch_ = 0;
  std::string leader_;
  std::vector<std::string> endpoints_;
  std::optional<std::vector<std::string>> moved_;
  absl::Status status_;
  std::optional<Time> leave_asked_;
  std::optional<Duration> server_clock_;  // how far it is ahead of this one
  Duration best_round_trip_ = Duration::max();
};

}  // namespace psgd
