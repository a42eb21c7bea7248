// The parts of the checkpoint under way that the shards have written, and those that wait for room
// on a full disk.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/clock.h"
#include "common/status.h"
#include "proto/checkpoint.pb.h"
#include "server/cluster/room_wait.h"

namespace psgd {

// Not thread-safe.
class CheckpointParts {
 public:
  explicit CheckpointParts(size_t shards) : shards_(shards) {}

  // The shard has written its part. True: all have, and the checkpoint must be sealed.
  bool Written(uint64_t checkpoint, uint32_t shard, const ShardReceipt& receipt);
  // By shard.
  const std::map<uint32_t, ShardReceipt>& receipts() const { return receipts_; }
  // All parts are written, so the checkpoint is being sealed.
  bool sealing() const { return sealing_; }
  // The checkpoint has ended.
  void End();

  // A shard's part (nullopt: the seal) found no room. It is due again a second later.
  void LackRoom(std::optional<uint32_t> shard, const absl::Status& why, Time now);
  // Whether the checkpoint waits on for room: see RoomWait.
  bool WaitsOn(bool asked_to_stop, Duration most, Time now) {
    return room_wait_.GoesOn(asked_to_stop, most, now);
  }
  // Why the checkpoint waits for room. OK: it does not wait.
  const absl::Status& no_room() const { return no_room_; }
  // True once after each LackRoom: what found no room is due again. TakeUnwritten says which parts.
  bool TakeDue(Time now);
  std::set<uint32_t> TakeUnwritten() { return std::exchange(unwritten_, {}); }

 private:
  const size_t shards_;
  uint64_t checkpoint_ = 0;  // which `receipts_` belong to
  std::map<uint32_t, ShardReceipt> receipts_;
  bool sealing_ = false;
  absl::Status no_room_;
  RoomWait room_wait_;
  std::optional<Time> due_;  // nullopt: it is being written
  std::set<uint32_t> unwritten_;
};

}  // namespace psgd
