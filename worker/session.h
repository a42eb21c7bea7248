// Drives a SessionCore over a transport from the thread that trains. While that thread computes, a
// thread of the session sends what waits for room, as acknowledgements come.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
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
  // While this object lives, a thread of the session carries messages. The owner uses the session
  // as before, but its core only while an Inside lives.
  class Away {
   public:
    explicit Away(Session* session);
    ~Away();
    Away(const Away&) = delete;
    Away& operator=(const Away&) = delete;

   private:
    Session* const session_;
  };
  // While this object lives, the session's thread waits. May be nested.
  class Inside {
   public:
    explicit Inside(Session* session) : session_(session) { session_->Enter(); }
    ~Inside() { session_->Exit(); }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    Session* const session_;
  };

  // While the session waits, it calls `interrupted` now and then, and at the time that `limit`
  // gives if it is set. An error of `interrupted` ends the wait. It also calls `moved` if that is
  // set: `moved` returns the new places of the shards if they moved since the last call. REQUIRES:
  // `core` outlives this.
  Session(SessionCore* core, std::unique_ptr<Endpoint> endpoint,
          std::function<absl::Status()> interrupted,
          std::function<absl::StatusOr<std::optional<MovedShards>>()> moved = nullptr,
          std::function<Time()> limit = nullptr);
  ~Session();

  // Sends what may be sent; never waits.
  void Send();
  // Carries messages until `done`.
  absl::Status WaitUntil(const std::function<bool()>& done);
  // Takes in what arrived, and never waits. Returns whether the last pull is complete.
  bool PullCame();

  void Push(uint64_t clock, EncodedSlice update);

  // Waits until all pushes are acknowledged, then measures the speed of the way to the shards.
  // REQUIRES: no pull is under way.
  absl::StatusOr<LinkSpeed> MeasureLink();

  // REQUIRES of the next two: an Inside lives, or no Away does.

  // When everything pushed so far was acknowledged; nullopt: it is not acknowledged yet.
  std::optional<Time> AcknowledgedAt() const;
  // The traffic, without that of MeasureLink.
  EndpointStats traffic() const;

 private:
  void SendNow();
  // When a wait next calls `interrupted`.
  Time NextPoll() const;
  absl::Status FollowMove();
  void Enter();
  void Exit();
  // Takes the lock from the thread, which may be waiting for a message.
  void Lock();
  void Carry();

  SessionCore* const core_;
  std::unique_ptr<Endpoint> endpoint_;
  EndpointStats left_;         // traffic of the endpoints before this one
  std::future<void> retired_;  // closes the last endpoint before this one
  const std::function<absl::Status()> interrupted_;
  const std::function<absl::StatusOr<std::optional<MovedShards>>()> moved_;
  const std::function<Time()> limit_;
  uint64_t measured_sent_ = 0;  // bytes of probes and of their answers
  uint64_t measured_received_ = 0;

  std::mutex mutex_;  // guards the core and the endpoint while the owner is away
  std::condition_variable changed_;
  std::atomic<bool> owner_comes_{false};
  bool away_ = false;  // the owner alone changes it, with the lock
  bool ending_ = false;
  int inside_ = 0;       // how many Inside objects live
  std::thread carrier_;  // starts when it is first needed
};

}  // namespace psgd
