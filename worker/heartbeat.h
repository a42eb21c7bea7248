// Keeps a worker's lease alive: drives a LeaseCore with a thread of its own.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/log.h"
#include "worker/control_client.h"
#include "worker/lease_core.h"

namespace psgd {

// Thread-safe.
class Heartbeat {
 public:
  // REQUIRES: `client` outlives this.
  Heartbeat(ControlClient* client, const JoinReply& joined, Log log);
  ~Heartbeat() { Stop(); }

  // The thread calls the client's `interrupted`, which may call this object. So the owner must not
  // move or replace this object from Start until Stop returns.
  void Start();
  void Stop();

  // Lets `add` add to the next report.
  void Record(const std::function<void(WorkerReport*)>& add);
  // Sends the recorded report at once.
  absl::Status Flush();

  // LeaseCore explains these.
  void SetHyper(const HyperParameters& hyper);
  HyperParameters hyper() const;
  bool drain() const;
  void SetEndpoints(std::vector<std::string> endpoints);
  std::optional<std::vector<std::string>> TakeMove();
  void SetLeaders(const Leaders& leaders);
  std::optional<Time> leave_asked() const;
  absl::Status status() const;

 private:
  void Run();
  // Tells the client which servers may answer. REQUIRES: mutex_ held.
  void Tell(const LeaseCore::Servers& servers);

  ControlClient* const client_;
  const Log log_;
  std::mutex sending_;        // one heartbeat at a time
  mutable std::mutex mutex_;  // guards everything below
  LeaseCore lease_;
  std::condition_variable changed_;  // stop_, or when the next heartbeat is due
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace psgd
