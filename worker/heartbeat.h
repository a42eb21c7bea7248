// Keeps a worker's lease alive and carries its reports up and hyper-parameters down.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "common/log.h"
#include "common/status.h"
#include "proto/control.pb.h"
#include "worker/control_client.h"

namespace psgd {

// Thread-safe. One thread of its own calls the coordinator.
class Heartbeat {
 public:
  // Of a worker that joined so. REQUIRES: `client` outlives this.
  Heartbeat(ControlClient* client, const JoinReply& joined, Log log);
  ~Heartbeat() { Stop(); }

  // Its thread asks the client's `interrupted`, which may ask this object: whoever holds it has it
  // in its place before Start, and leaves it there until Stop is done.
  void Start();
  void Stop();

  // Adds to the report that goes up next.
  void Record(const std::function<void(WorkerReport*)>& add);
  // Sends what is recorded at once.
  absl::Status Flush();

  // Newer ones than are known take effect; the coordinator's answers bring them too.
  void SetHyper(const HyperParameters& hyper);
  HyperParameters hyper() const;
  bool drain() const;
  // Where this worker believes the shards to be.
  void SetEndpoints(std::vector<std::string> endpoints);
  // The shards are elsewhere since: where. Once each time.
  std::optional<std::vector<std::string>> TakeMove();
  // What a call's reply says of who leads the run.
  void SetLeaders(const Leaders& leaders);
  // When the coordinator first asked for this worker to leave the run.
  std::optional<Time> leave_asked() const;
  // Why the run goes on without this worker, if it does.
  absl::Status status() const;

 private:
  void Run();
  absl::Status Send();
  void CompareEndpoints(std::vector<std::string> endpoints);
  // REQUIRES: mutex_ held.
  void CompareClocks(int64_t server_ns, Time asked, Time answered);
  void PutSpansBack(WorkerReport* report);

  ControlClient* const client_;
  const WorkerKey key_;
  const Duration period_;
  const Duration attempt_;  // a lease has room for a second one
  const Log log_;
  std::mutex sending_;        // one report at a time
  uint64_t sent_ = 0;         // guarded by it: reports
  mutable std::mutex mutex_;  // guards everything below
  std::condition_variable stop_changed_;
  bool stop_ = false;
  WorkerReport report_;
  HyperParameters hyper_;
  bool drain_ = false;
  uint64_t run_epoch_ = 0;
  std::string leader_;
  std::vector<std::string> endpoints_;
  std::optional<std::vector<std::string>> moved_;
  absl::Status status_;
  std::optional<Time> leave_asked_;
  std::optional<Duration> server_clock_;  // what it is ahead of this one's
  Duration best_round_trip_ = Duration::max();
  std::thread thread_;
};

}  // namespace psgd
