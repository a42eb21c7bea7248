// Drives a SessionCore over a transport from the thread that trains: no message changes threads.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/transport.h"
#include "worker/link_speed.h"
#include "worker/session_core.h"

namespace psgd {

// Where the shards are after a move.
struct MovedShards {
  std::unique_ptr<Endpoint> endpoint;
  std::vector<std::string> addresses;
};

// Not thread-safe: belongs to the training thread.
class Session {
 public:
  // While it waits it asks `interrupted`, whose failure ends the wait, and `moved`, if given: where
  // the shards are if they moved since the last call. REQUIRES: `core` outlives this.
  Session(SessionCore* core, std::unique_ptr<Endpoint> endpoint,
          std::function<absl::Status()> interrupted,
          std::function<absl::StatusOr<std::optional<MovedShards>>()> moved = nullptr);

  // Sends what may be sent; never waits.
  void Send();
  // Carries messages until `done`.
  absl::Status WaitUntil(const std::function<bool()>& done);
  // Takes in what arrived, and never waits. Returns whether the last pull is complete.
  bool PullCame();

  void Push(uint64_t clock, EncodedSlice update);

  // Waits until all pushes are acknowledged, then measures what the way to the shards carries.
  // REQUIRES: no pull is under way.
  absl::StatusOr<LinkSpeed> MeasureLink();

  // When everything pushed so far was acknowledged; nothing: it is not yet.
  std::optional<Time> AcknowledgedAt() const;
  // Without what measuring took.
  EndpointStats traffic() const;

 private:
  absl::Status FollowMove();

  SessionCore* const core_;
  std::unique_ptr<Endpoint> endpoint_;
  EndpointStats left_;         // traffic of the endpoints before this one
  std::future<void> retired_;  // closes the last endpoint before this one
  const std::function<absl::Status()> interrupted_;
  const std::function<absl::StatusOr<std::optional<MovedShards>>()> moved_;
  uint64_t measured_sent_ = 0;  // bytes of probes and of their answers
  uint64_t measured_received_ = 0;
};

}  // namespace psgd
