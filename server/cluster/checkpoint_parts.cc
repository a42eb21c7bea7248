#include "server/cluster/checkpoint_parts.h"

#include <utility>

namespace psgd {
namespace {

constexpr Duration kRoomRetry = std::chrono::seconds(1);

}  // namespace

bool CheckpointParts::Written(uint64_t checkpoint, uint32_t shard, const ShardReceipt& receipt) {
  if (std::exchange(checkpoint_, checkpoint) != checkpoint) receipts_.clear();
  receipts_[shard] = receipt;
  unwritten_.erase(shard);
  sealing_ = receipts_.size() == shards_;
  return sealing_;
}

void CheckpointParts::End() {
  receipts_.clear();
  sealing_ = false;
  no_room_ = absl::OkStatus();
  room_wait_.End();
  due_.reset();
  unwritten_.clear();
}

void CheckpointParts::LackRoom(std::optional<uint32_t> shard, const absl::Status& why, Time now) {
  if (no_room_.ok()) no_room_ = why;
  due_ = now + kRoomRetry;
  if (shard) unwritten_.insert(*shard);
}

bool CheckpointParts::TakeDue(Time now) {
  if (!due_ || now < *due_) return false;
  due_.reset();
  return true;
}

}  // namespace psgd
