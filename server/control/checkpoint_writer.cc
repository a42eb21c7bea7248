#include "server/control/checkpoint_writer.h"

#include <utility>

namespace psgd {

std::optional<absl::StatusOr<ShardReceipt>> CheckpointWriter::Write(const effect::WritePart& part,
                                                                    const ShardCut& cut) {
  using Next = UnsealedCheckpoint::Next;
  const Next next = unsealed_.ForPart(part);
  if (next == Next::kPassOver) return std::nullopt;
  if (next == Next::kTell) return unsealed_.receipt(part.shard);
  if (next == Next::kBegin) {
    if (absl::Status begun = store_->Begin(part.checkpoint); !begun.ok()) return begun;
    unsealed_.Begun(part);
  }
  absl::StatusOr<ShardReceipt> receipt =
      store_->WriteShard(part.checkpoint, part.shard, cut.snapshot);
  if (receipt.ok()) unsealed_.Written(part.shard, *receipt);
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

void CheckpointWriter::Discard(const effect::DiscardParts& parts) {
  if (!unsealed_.Discard(parts)) return;
  const absl::Status removed = store_->Discard(parts.checkpoint);
  if (!removed.ok()) log_->warn("checkpoint {}: {}", parts.checkpoint, removed.ToString());
}

}  // namespace psgd
