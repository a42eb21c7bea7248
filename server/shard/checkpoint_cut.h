// A checkpoint's cut of one shard: what it has of workers' states so far, until it is complete.
// ShardCore decides which pushes belong to it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "common/bytes.h"
#include "server/shard/shard_command.h"
#include "server/shard/slice_set.h"
#include "server/shard/snapshot.h"

namespace psgd {

// A finished cut, ready to be written.
struct ShardCut {
  uint64_t checkpoint = 0;
  ShardSnapshot snapshot;
};

// Not thread-safe.
class CheckpointCut {
 public:
  // Takes the states that `slices` keep for workers other than the savers. That is done now,
  // because a worker that joins behind the cut may push its loaded residual before the cut is
  // complete.
  CheckpointCut(const TakeCheckpoint& command, const SliceSet& slices);

  uint64_t clock() const { return clock_; }
  // Whether the checkpoint has a place for the worker's state.
  bool Saves(uint64_t checkpoint, uint32_t worker) const {
    return checkpoint == id_ && saved_.contains(worker);
  }
  // REQUIRES: Saves().
  void Add(uint32_t worker, uint32_t id, const Bytes& state);
  void HasAllOf(uint32_t worker) { saved_.at(worker) = true; }
  // The worker is gone: nobody waits for the rest of its state.
  void Forget(uint32_t worker);
  bool HasAllStates() const;
  // The cut, with the slices as they are now.
  ShardCut Finish(const SliceSet& slices);

 private:
  uint64_t id_ = 0;
  uint64_t clock_ = 0;
  std::map<uint32_t, bool> saved_;  // worker -> whether its state has come
  ShardSnapshot snapshot_;
};

// Whether the cut that is under way, if any, holds back pushes of the clock.
inline bool HoldsBack(const std::optional<CheckpointCut>& cut, uint64_t clock) {
  return cut && clock > cut->clock();
}

}  // namespace psgd
