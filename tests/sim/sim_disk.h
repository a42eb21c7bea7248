// The disk of a simulated server. It outlives the processes of the server.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>

#include "server/cluster/copy_place.h"
#include "simulate/chance.h"
#include "tests/sim/scenario.h"
#include "tests/sim/storage.h"

namespace psgd::sim {

// Not thread-safe.
class SimDisk {
 public:
  // Draws from the chance of its server.
  SimDisk(const Scenario& scenario, Chance* chance) : scenario_(scenario), chance_(chance) {}

  // Where a copy of the shard lies. No place changes once the process has died.
  std::unique_ptr<CopyDisk> PlaceOf(uint32_t shard);
  // What lies in the place of the shard; null: nothing does.
  ShardDisk* Find(uint32_t shard);
  void Fill(bool full);
  void Clear();
  // What the death of the process makes of it. `power`: the machine loses power.
  void Crash(bool power);

  // The process dies at that operation on a place, before it is done; 1 is the next. A Create may
  // still be done.
  void DieAfter(int operations) { operations_until_end_ = operations; }
  void DontDie() { operations_until_end_ = -1; }
  bool died() const { return operations_until_end_ == 0; }

  // The parts of checkpoints. A checkpoint takes the place of those with its id or a later one.
  void BeginCheckpoint(uint64_t id);
  void WritePart(uint64_t id, uint32_t shard) { checkpoints_[id].insert(shard); }
  bool HasPart(uint64_t id, uint32_t shard) const {
    const auto at = checkpoints_.find(id);
    return at != checkpoints_.end() && at->second.contains(shard);
  }
  void DiscardCheckpoint(uint64_t id) { checkpoints_.erase(id); }

 private:
  class Place;

  // What lies in the shard's place; a new journal if nothing does.
  DurableShardOptions OptionsOf(uint32_t shard);

  const Scenario& scenario_;
  Chance* const chance_;
  std::map<uint32_t, std::unique_ptr<ShardDisk>> places_, asides_;  // by shard
  bool full_ = false;
  int operations_until_end_ = -1;                       // 0: no more are done; -1: it does not end
  std::map<uint64_t, std::set<uint32_t>> checkpoints_;  // the shards whose parts are written
};

}  // namespace psgd::sim
