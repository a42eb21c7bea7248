#include "server/control/checkpoint_writer.h"

#include <utility>

namespace psgd {

std::optional<absl::StatusOr<ShardReceipt>> CheckpointWriter::Write(uint32_t shard,
                                                                    const ShardCut& cut) {
  if (cut.checkpoint < id_) return std::nullopt;
  if (id_ != cut.checkpoint) {
    if (absl::Status begun = store_->Begin(cut.checkpoint); !begun.ok()) return begun;
    id_ = cut.checkpoint;
    written_.clear();
    sealed_ = false;
  }
  if (const auto before = written_.find(shard); before != written_.end()) return before->second;
  absl::StatusOr<ShardReceipt> receipt = store_->WriteShard(id_, shard, cut.snapshot);
  if (receipt.ok()) written_[shard] = *receipt;
  Reach(failpoint_, Failpoint::kCheckpointPart);
  return receipt;
}

absl::StatusOr<SealedCheckpoint> CheckpointWriter::Seal(const CheckpointManifest& manifest) {
  Reach(failpoint_, Failpoint::kCheckpointSealing);
  const absl::Status sealed = store_->Seal(manifest);
  Reach(failpoint_, Failpoint::kCheckpointSealed);
  if (!sealed.ok()) {
    log_->error("checkpoint {}: {}", manifest.id(), sealed.ToString());
    return sealed;
  }
  sealed_ = true;
  SealedCheckpoint result;
  auto removed = store_->Prune(keep_);
  if (removed.ok()) {
    result.removed = *std::move(removed);
  } else {
    log_->warn("old checkpoints: {}", removed.status().ToString());
  }
  result.best = store_->KeptBest().value_or(std::nullopt);
  CheckpointInfo& info = result.info;
  info.set_id(manifest.id());
  info.set_epoch(manifest.epoch_progress());
  info.set_clock(manifest.clock());
  info.set_name(manifest.name());
  for (const ShardReceipt& receipt : manifest.shards()) {
    info.set_bytes(info.bytes() + receipt.bytes());
  }
  return result;
}

void CheckpointWriter::Done(uint64_t checkpoint) {
  if (id_ == 0 || checkpoint < id_ || sealed_) return;
  written_.clear();
  const absl::Status removed = store_->Discard(id_);
  if (!removed.ok()) log_->warn("checkpoint {}: {}", id_, removed.ToString());
}

}  // namespace psgd
