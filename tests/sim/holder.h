// A server process of the simulation as a holder of shards: the coordinator's own, or those of one
// that joined it. Its disks outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "server/durability/durable_shard.h"
#include "simulate/chance.h"
#include "tests/sim/sabotage.h"
#include "tests/sim/scenario.h"
#include "tests/sim/storage.h"

namespace psgd::sim {

class Cluster;

// Not thread-safe.
class Holder {
 public:
  using Disks = std::map<uint32_t, std::unique_ptr<ShardDisk>>;  // by shard
  using Shards = std::map<uint32_t, std::unique_ptr<DurableShard>>;
  // Each finished checkpoint's cut.
  using OnCut = std::function<void(uint32_t shard, const ShardCut& cut)>;

  Holder(Cluster* cluster, const Scenario& scenario, uint32_t server, Saboteur* saboteur,
         OnCut on_cut);

  uint32_t server() const { return server_; }
  // This life.
  const Shards& shards() const { return shards_; }
  DurableShard* Find(uint32_t shard) const;
  void Put(uint32_t shard, std::unique_ptr<DurableShard> durable) {
    shards_[shard] = std::move(durable);
  }
  // Its machine loses power, or only the process is killed. True: something that it wrote is lost.
  bool Die(bool power);
  // It does nothing until then.
  void Pause(Time until);
  bool paused() const;
  // Now, or once the pause is over; not at all if it dies before.
  void WhenAwake(std::function<void()> action);
  // Called when the next image begins to be written, with how long that takes.
  using OnImage = std::function<void(Duration)>;
  void TellOfNextImage(OnImage on_image) { on_image_ = std::move(on_image); }

  // The disks.
  Disks& disks() { return disks_; }
  ShardDisk* EmptyDisk(uint32_t shard);
  // With its disk.
  void Drop(uint32_t shard);
  void Fill(bool full);
  bool full() const { return full_; }

  void Deliver(uint32_t process, uint32_t shard, Message message);
  void Commit(uint32_t shard);
  void CommitAll();
  uint64_t images() const { return images_; }

 private:
  void CommitLater(uint32_t shard);
  void SaveImageLater(uint32_t shard, ShardImage image);
  void SaveImageNow(uint32_t shard, const ShardImage& image);

  Cluster* const cluster_;
  const Scenario& scenario_;
  const uint32_t server_;
  Saboteur* const saboteur_;
  const OnCut on_cut_;
  OnImage on_image_;
  Chance chance_;
  Disks disks_;
  bool full_ = false;
  Shards shards_;
  uint64_t life_ = 0;
  Time awake_at_{};
  std::set<uint32_t> commit_due_;
  uint64_t images_ = 0;
};

}  // namespace psgd::sim
