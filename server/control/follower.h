// A server that writes down what another does, to go on in its place: docs/durability.md.
//
// It keeps journals of its own and the shards as they are now, so that taking over is no more than
// opening its ports. One thread a log reads what the leader sends.
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

#include "common/clock.h"
#include "common/log.h"
#include "net/credentials.h"
#include "server/control/followed_run.h"
#include "server/control/leader_link.h"
#include "server/durability/shard_parts.h"

namespace psgd {

enum class FollowerNews {
  kMayNotLead,    // its leader is gone, and it lacks what it takes to lead: it waits for one
  kFollowsAgain,  // after that
};

struct FollowerOptions {
  std::vector<std::string> leaders;  // HOST:PORT; asked in turn
  std::string host;                  // of its own control plane
  std::string advertise;             // as others reach it; empty: host
  int control_port = 0;
  // As its run directory knows it: it comes back. Of a new one `replica` may be set; 0: the leader
  // gives it one.
  FollowerRecord self;
  Duration connect_deadline = std::chrono::seconds(60);
  std::shared_ptr<const Credentials> credentials;
  // Where it is settled who leads, and found out; null: the servers' own records settle it.
  std::shared_ptr<ChainStore> chains;
  std::function<absl::Status()> interrupted;  // a failure ends following
  std::function<void(FollowerNews)> tell;
};

// Belongs to one thread.
class Follower {
 public:
  // Waits for a leader, at most until the deadline.
  static absl::StatusOr<std::unique_ptr<Follower>> Connect(FollowerOptions options);
  ~Follower();

  const Config& config() const { return run_.config(); }
  uint32_t replica() const { return options_.self.replica(); }

  enum class End { kLead, kOver };
  // Until the leader is silent for too long, or the run over. `server_dir`: for the journals.
  absl::StatusOr<End> Follow(const std::string& server_dir, Log log);
  // REQUIRES: Follow returned kLead.
  FollowedRun TakeOver();

 private:
  struct FollowedShard {
    std::unique_ptr<DurableShard> shard;
    std::future<absl::Status> saving;  // an image
  };

  explicit Follower(FollowerOptions options);
  FollowerSays::Ask Ask() const;
  // Asks everybody who may lead once.
  absl::Status Reach();
  // That may lead by now.
  absl::StatusOr<std::vector<std::string>> Leaders() const;
  std::string LeadersText() const;
  // Follows until the connection ends; says why.
  absl::Status FollowConnection();
  void ReadCoordinator();
  void ReadShard(uint32_t shard, LeaderLink* link);
  absl::Status TakeShardPart(uint32_t shard, const ShardPart& part, ShardPartReader* parts);
  absl::Status TakeRecord(LogPart::Record* shipped);
  absl::StatusOr<std::unique_ptr<DurableShard>> MakeShard(uint32_t shard, const ShardImage& image);
  absl::Status SaveDueImage(FollowedShard* followed);
  void Heard();
  Duration Silence() const;
  void Broke(absl::Status why);
  // All that it takes to lead is here.
  bool MayLead() const;
  // Of silence, before it leads. Those before it in the chain go first.
  Duration Patience() const;
  // Leads, if the chain lets it.
  absl::Status TryToLead();

  FollowerOptions options_;
  const std::string address_;
  LogPart::Run run_;
  std::string server_dir_;
  Log log_ = NullLog();
  std::string leader_;  // that was reached last
  LedChain led_;
  std::unique_ptr<LeaderLink> coordinator_;
  std::shared_ptr<FollowerSet> followers_;
  std::unique_ptr<CoordinatorStore> store_;
  std::vector<FollowedShard> shards_;  // each its thread's while that runs
  std::atomic<uint64_t> checkpoint_done_{0};

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  CoordinatorRecord record_;
  bool has_record_ = false;  // of this connection
  size_t complete_ = 0;      // shards of this connection
  bool broken_ = false;
  absl::Status why_;
  Time last_heard_{};
};

}  // namespace psgd
