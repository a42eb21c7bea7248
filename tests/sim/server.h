// A server process of the simulation: coordinator and shards over simulated disks, as ParameterServer
// joins them. It can die at any moment, between any two steps of what it does, and be started again.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/coordinator_core.h"
#include "server/durable_shard.h"
#include "server/order_book.h"
#include "simulate/chance.h"
#include "tests/sim/sabotage.h"
#include "tests/sim/scenario.h"
#include "tests/sim/standby.h"
#include "tests/sim/storage.h"

namespace psgd::sim {

class Cluster;

// Not thread-safe.
class Server {
 public:
  Server(Cluster* cluster, const Scenario& scenario);

  bool up() const { return up_; }
  // REQUIRES: up().
  CoordinatorCore& coordinator() { return *coordinator_; }
  const DurableShard& shard(uint32_t s) const { return *shards_[s]; }
  size_t shards() const { return shards_.size(); }
  // Everything that was decided is carried out.
  bool settled() const { return !orders_.pending(); }
  uint64_t crashes() const { return crashes_; }
  uint64_t images() const { return images_; }
  uint64_t takeovers() const { return takeovers_; }

  // Carries out what the coordinator decided. False: nobody gets an answer, since the server died on
  // the way or cannot write it down.
  bool Apply(Effects effects);
  void Deliver(uint32_t process, uint32_t shard, Message message);
  void Tick();

  // By its clock, which may be set ahead or back.
  Time Now() const;
  void StepClock(Duration step);
  // The coordinator answered that member.
  void Heard(const WorkerKey& key);

  // At once, or in the midst of what it does next.
  void Die();
  void DieSoon();
  void FillDisks(Duration length);
  void KillStandby();
  // What the disks hold makes the very shards that are here.
  void CheckDisks();

 private:
  void Start();
  void StartAgain();
  absl::Status Recover(const CoordinatorRecord& record);
  // Goes on with the shards that the standby holds, and its disks: the server's own are lost.
  absl::Status TakeOver();
  void RestoreCoordinator(const CoordinatorRecord& record);
  void RestoreCuts();
  // A standby begins to follow a little later, and is waited for once it has caught up.
  void BeginStandbyLater();
  void CatchUp();
  bool replicated() const;
  DurableShardOptions ShardOptionsFor(uint32_t shard);
  bool journals() const;
  // True when this is the moment at which it dies.
  bool DiesHere();
  bool CarryOut();
  bool SaveRecord();
  // The oracle hears of what is decided once, and once it is.
  void Tell(uint64_t number, const ShardCommand& command);
  void CommitLater(uint32_t shard);
  void Commit(uint32_t shard);
  void TakeCut(uint32_t shard, const ShardCut& cut);
  void SaveImageLater(uint32_t shard, ShardImage image);
  void CheckpointWritten(uint64_t id);

  Cluster* const cluster_;
  const Scenario& scenario_;
  Chance chance_;
  Saboteur saboteur_;

  // The disks.
  std::vector<std::unique_ptr<ShardDisk>> disks_;
  std::string record_;
  Standby standby_;
  std::shared_ptr<Standby*> behind_;  // the shards of this life

  // This life.
  bool up_ = false;
  uint64_t life_ = 0;
  std::unique_ptr<CoordinatorCore> coordinator_;
  std::vector<std::unique_ptr<DurableShard>> shards_;
  std::vector<bool> commit_due_;
  OrderBook orders_;
  std::map<uint64_t, size_t> cuts_;  // checkpoint -> shards that gave theirs
  std::map<uint64_t, bool> cut_fails_;

  // Ends leases, and finds those that ended although their worker had been heard.
  bool EndLeases(Time now);

  Duration clock_offset_{};
  Duration hidden_step_{};  // of the clock, that the coordinator is not to notice
  std::map<std::pair<uint32_t, uint32_t>, Time> heard_;  // worker, incarnation -> real time
  uint64_t told_ = 0;  // orders that the oracle knows
  int steps_to_live_ = 0;
  uint64_t crashes_ = 0;
  uint64_t images_ = 0;
  uint64_t takeovers_ = 0;
};

}  // namespace psgd::sim
