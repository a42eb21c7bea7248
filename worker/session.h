// Drives a SessionCore over a transport from the thread that trains: no message changes threads.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/log.h"
#include "net/transport.h"
#include "worker/link_speed.h"
#include "worker/session_core.h"

namespace psgd {

// Where the shards are by now.
struct MovedShards {
  std::unique_ptr<Endpoint> endpoint;
  std::vector<std::string> addresses;
};

// Not thread-safe: belongs to the training thread.
class Session {
 public:
  // `interrupted` is asked while waiting: a failure (stop asked for, lease lost) ends the wait. So
  // is `moved`, if given: whether another server leads the run since it was last asked.
  Session(std::unique_ptr<Endpoint> endpoint, const SessionOptions& options,
          const Placement& placement, std::function<absl::Status()> interrupted,
          std::function<absl::StatusOr<std::optional<MovedShards>>()> moved = nullptr);

  void Pull(uint64_t clock);
  // Until the last Pull is complete.
  absl::Status WaitPulled();
  std::vector<PulledSlice> TakePulled() { return core_.TakePulled(); }
  // Takes in what came, and never waits: whether the last Pull is complete.
  bool PullCame();
  // Of that, what TakePulled will give; until then pushes say that they were made from what was
  // taken before.
  const std::vector<PulledSlice>& pulled() const { return core_.pulled(); }

  void Push(uint64_t clock, EncodedSlice update);
  void EndClock(uint64_t clock);
  // Until every shard has acknowledged everything.
  absl::Status WaitAcknowledged();

  void SaveState(uint64_t checkpoint, const std::vector<std::pair<uint32_t, Bytes>>& residuals);
  absl::StatusOr<std::map<uint32_t, Bytes>> LoadState();

  // What the way to the shards carries, once all that was pushed is acknowledged.
  // REQUIRES: no pull is under way.
  absl::StatusOr<LinkSpeed> MeasureLink();

  uint64_t AcknowledgedClock() const { return core_.AcknowledgedClock(); }
  std::vector<uint32_t> SlicesInDoubt(uint64_t clock) const { return core_.SlicesInDoubt(clock); }
  // When everything pushed so far was acknowledged; nothing: it is not yet.
  std::optional<Time> AcknowledgedAt() const;

  const PullAnswer& last_answer() const { return core_.last_answer(); }
  const SessionStats& stats() const { return core_.stats(); }
  // Without what measuring took.
  EndpointStats traffic() const;

 private:
  // Sends what may be sent; never waits.
  void SendReady();
  absl::Status WaitUntil(const std::function<bool()>& done);
  absl::Status FollowMove();

  std::unique_ptr<Endpoint> endpoint_;
  EndpointStats left_;         // of those before it
  std::future<void> retired_;  // the last of those goes
  const std::function<absl::Status()> interrupted_;
  const std::function<absl::StatusOr<std::optional<MovedShards>>()> moved_;
  SessionCore core_;
  uint64_t measured_sent_ = 0;  // bytes of probes and of their answers
  uint64_t measured_received_ = 0;
};

}  // namespace psgd
