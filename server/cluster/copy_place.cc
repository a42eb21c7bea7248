#include "server/cluster/copy_place.h"

namespace psgd {

absl::StatusOr<std::unique_ptr<DurableShard>> CopyPlace::Read() {
  auto shard = disk_->Read();
  settled_ = shard.ok();
  return shard;
}

absl::StatusOr<std::unique_ptr<DurableShard>> CopyPlace::Recover() {
  const bool aside = disk_->Exists(CopySpot::kAside);
  absl::StatusOr<std::unique_ptr<DurableShard>> shard = NotFoundError("nothing lies there");
  if (disk_->Exists(CopySpot::kPlace)) shard = Read();
  if (SpotThatCounts(!absl::IsNotFound(shard.status()), aside) == CopySpot::kAside) {
    shard = Restore();
  } else if (aside && shard.ok()) {
    PSGD_RETURN_IF_ERROR(disk_->Discard(CopySpot::kAside));
  } else if (aside && absl::IsDataLoss(shard.status())) {
    return DataLossError(
        shard.status().message(),
        "; the copy from before, in the folder beside it, may lack what was acknowledged since, "
        "so it does not take its place. If other servers have copies of the shard, move both "
        "folders away and start this server again; if not, go on from a checkpoint (--resume)");
  }
  // Nothing was acknowledged before the first image was finished.
  if (absl::IsNotFound(shard.status())) return std::unique_ptr<DurableShard>();
  return shard;
}

absl::StatusOr<DurableShardOptions> CopyPlace::Empty() {
  // An old shard lies aside if Settle could not discard it. A restart would take it for the shard
  // that is put aside now.
  if (settled_) PSGD_RETURN_IF_ERROR(disk_->Discard(CopySpot::kAside));
  // If an earlier image was not finished, what was there before it is aside already.
  if (disk_->Exists(CopySpot::kPlace) && !disk_->Exists(CopySpot::kAside)) {
    PSGD_RETURN_IF_ERROR(disk_->Rename(CopySpot::kPlace, CopySpot::kAside));
  }
  settled_ = false;
  return disk_->Create();
}

void CopyPlace::Settle() {
  settled_ = true;
  (void)disk_->Discard(CopySpot::kAside);  // the next Empty or Recover tries again
}

absl::StatusOr<std::unique_ptr<DurableShard>> CopyPlace::Restore() {
  if (!settled_) {
    if (!disk_->Exists(CopySpot::kAside)) {
      return absl::NotFoundError("there was nothing before");
    }
    PSGD_RETURN_IF_ERROR(disk_->Discard(CopySpot::kPlace));
    PSGD_RETURN_IF_ERROR(disk_->Rename(CopySpot::kAside, CopySpot::kPlace));
  }
  return Read();
}

void CopyPlace::Drop() {
  settled_ = false;
  // A process that starts takes what lies aside if the place is empty, so that goes first.
  if (disk_->Discard(CopySpot::kAside).ok()) (void)disk_->Discard(CopySpot::kPlace);
}

}  // namespace psgd
