// What a worker reports of its session: traffic, latencies, staleness and refusals.
#pragma once

#include "net/transport.h"
#include "proto/control.pb.h"
#include "worker/session_core.h"

namespace psgd {

// Not thread-safe.
class SessionReport {
 public:
  // Adds what came since the last call. `traffic` and `stats` count from the start.
  void AddTo(const EndpointStats& traffic, const SessionStats& stats, WorkerReport* report);

 private:
  EndpointStats reported_traffic_;
  SessionStats reported_;
};

}  // namespace psgd
