// A server that holds some of the shards of a run that another one coordinates:
// docs/architecture.md, "Several servers". It knows only the coordinator's address; which shards it
// holds comes from there.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <variant>

#include "common/bounded_queue.h"
#include "common/clock.h"
#include "common/log.h"
#include "net/credentials.h"
#include "server/control/host_link.h"
#include "server/control/shard_set.h"
#include "server/durability/shard_parts.h"

namespace psgd {

struct ShardHostOptions {
  std::string coordinator;  // HOST:PORT
  // Where that is by now, if somebody knows; else it stays where it is.
  std::function<absl::StatusOr<std::string>()> find_coordinator = nullptr;
  std::string host;         // that data ports bind to
  std::string advertise;    // that workers are told; empty: host
  std::string name;         // for people
  std::string earlier_dir;  // where it may have journals from before; empty: nowhere
  Duration connect_deadline = std::chrono::seconds(60);
  std::shared_ptr<const Credentials> credentials;
  std::shared_ptr<FailpointPlan> failpoint;  // for tests; null: there is none
  std::function<int()> stops;                // how often it was asked to stop
};

// Belongs to one thread.
class ShardHost {
 public:
  // Waits for the coordinator, at most until the deadline.
  static absl::StatusOr<std::unique_ptr<ShardHost>> Connect(ShardHostOptions options);
  ~ShardHost();

  const Config& config() const { return begin_.config(); }
  uint32_t server() const { return begin_.server(); }

  // Until the run is over, or it was asked to stop and its shards have gone elsewhere.
  // `server_dir`: for the journals.
  absl::Status Serve(const std::string& server_dir, Log log);

 private:
  // An image for the coordinator, and the answer after it.
  struct Given {
    std::shared_ptr<HostLink> link;
    ShardImage image;
    HostSays answer;
  };
  struct ToWrite {
    uint32_t shard = 0;
    std::variant<std::shared_ptr<const ShardCut>, ShardImage, Given> what;
  };

  explicit ShardHost(ShardHostOptions options);
  absl::Status Reach();
  absl::Status OpenShards();
  absl::Status RecoverShards();
  // Until the connection ends; says why.
  absl::Status ServeConnection();
  void Carry(const HostTold::Call& call);
  // Fills in the answer.
  absl::Status CarryOut(const HostTold::Call& call, HostSays::Answer* answer);
  absl::Status Take(uint32_t shard, uint32_t starts, HostSays::Answer* answer);
  void Admit(const CoordinatorRecord::Pass& pass);
  absl::Status SaveRecord();
  std::shared_ptr<HostLink> Link() const;
  bool Say(const HostSays& says);
  static bool SayPart(HostLink& link, const ShardPart& part);
  void TellOfShards();
  void WriteLoop();
  bool Leaves() const { return options_.stops() > 0; }
  size_t ShardsHere() const;

  const ShardHostOptions options_;
  std::string coordinator_;  // where it is by now
  HostTold::Begin begin_;
  HostRecord record_;
  std::string server_dir_;
  Log log_ = NullLog();
  Duration clock_ahead_{};              // the coordinator's, of this one's
  std::shared_ptr<AllowList> members_;  // of a secured run
  std::unique_ptr<ShardSet> set_;
  std::map<uint32_t, ArrivingShard> arriving_;
  BoundedQueue<ToWrite> to_write_;
  std::thread writer_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::shared_ptr<HostLink> link_;
  std::map<uint32_t, std::shared_ptr<ShardServer>> shards_;
  // Until the coordinator says that their checkpoint is done: what was sent may have been lost.
  std::map<uint32_t, std::shared_ptr<const ShardCut>> cuts_;
  bool over_ = false;
};

}  // namespace psgd
