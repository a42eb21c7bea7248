// A server's part in its run: the server's loop tells of it, and others wait for it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "common/clock.h"
#include "common/status.h"
#include "proto/control.pb.h"
#include "server/cluster/server_core.h"

namespace psgd {

struct ServerStanding {
  uint32_t server = 0;                // its number; 0: no number yet
  bool leads = false;                 // it leads the run
  bool asked_to_stop = false;         // it leads the run, which was asked to stop
  bool stop_waits_for_store = false;  // and a run store on other machines does not answer
  bool trained = false;  // it leads the run, whose training is over: the results must be saved
  bool closed = false;   // the results are saved: the server is not needed any more
  std::optional<absl::Status> ended;  // why it is not part of the run any more
  bool operator==(const ServerStanding&) const = default;
};

// Thread-safe.
class StandingBoard {
 public:
  // `deadline`: how long a leaving server looks for the server that leads the run.
  explicit StandingBoard(Duration deadline) : deadline_(deadline) {}

  ServerStanding now() const;
  // Waits until the standing differs from `known`, at most `timeout`.
  ServerStanding WaitChanged(const ServerStanding& known, Duration timeout);
  // What the results wait for, for StatusReply.waits_for; empty: nothing.
  void SetResultsWaitFor(std::string what);
  // Says in the reply what the run waits for, if it waits.
  void AddTo(StatusReply* status) const;

  // The server was asked to leave.
  void Leave();
  // Takes the standing from the core. `linked`: to the server that leads the run.
  void Look(const ServerCore& core, bool linked);
  void End(const absl::Status& why);

 private:
  void Change(const ServerStanding& now);  // REQUIRES: mutex_ is held

  const Duration deadline_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  ServerStanding standing_;
  bool leaving_ = false;
  Time linked_at_{};  // while it leaves: when it was last connected to the leading server
  std::string results_wait_for_;
};

}  // namespace psgd
