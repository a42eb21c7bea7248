// The part of ParameterServer that writes checkpoints, on a thread of its own.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/control/parameter_server.h"

namespace psgd {
namespace {
constexpr Duration kSaveRetry = std::chrono::milliseconds(50);
}  // namespace

void ParameterServer::WriteLoop() {
  while (auto next = to_write_.Pop()) {
    if (const auto* image = std::get_if<ShardImage>(&next->what)) {
      WriteImage(next->shard, *image);
      continue;
    }
    ShardCut& cut = std::get<ShardCut>(next->what);
    const uint64_t id = cut.checkpoint;
    const absl::Status status = WriteCut(next->shard, std::move(cut));
    if (status.ok() && written_.shards.size() < Shards().size())
      continue;  // shards are still to come
    std::unique_lock lock(mutex_);
    Effects effects;
    core_.CheckpointDone(id, status, &effects);
    if (!status.ok()) {
      options_.log->error("checkpoint {}: {}", id, status.ToString());
      failed_checkpoints_[id] = status;
    }
    (void)Apply(std::move(effects));  // news only
    // Then shards forget what the cut could be made from again, should the server die.
    absl::Status saved = SaveRecord();
    while (!saved.ok() && !stopping_) {
      changed_.wait_for(lock, kSaveRetry, [&] { return stopping_; });
      saved = SaveRecord();
    }
    if (!saved.ok()) continue;
    for (const auto& shard : Shards()) shard->CheckpointDone(id);
  }
}

void ParameterServer::WriteImage(uint32_t shard, const ShardImage& image) {
  const auto local = local_->Find(shard);
  if (local == nullptr) return;  // it was moved
  const absl::Status status = local->SaveImage(image);
  if (status.ok()) {
    options_.log->debug("shard {}: image of its journal at entry {}", shard, image.record.entry());
  } else {
    options_.log->error("shard {}: its journal grows, since no image of it can be written: {}",
                        shard, status.ToString());
  }
}

absl::Status ParameterServer::WriteCut(uint32_t shard, ShardCut cut) {
  const uint64_t id = cut.checkpoint;
  if (id < written_.checkpoint) return absl::OkStatus();  // of one that was given up
  if (written_.checkpoint != id) {
    written_ = {};
    written_.checkpoint = id;
  }
  // One that another server sends again.
  if (!written_.shards.insert(shard).second) return absl::OkStatus();
  if (!written_.failed.ok()) return written_.failed;
  auto receipt = store_.WriteShard(id, shard, cut.snapshot);
  cut = {};  // lets the shard update in place again
  if (!receipt.ok()) {
    written_.failed = receipt.status();
    return receipt.status();
  }
  Reach(options_.failpoint.get(), Failpoint::kCheckpointPart);
  written_.receipts.push_back(*std::move(receipt));
  return written_.shards.size() == Shards().size() ? Seal(id) : absl::OkStatus();
}

absl::Status ParameterServer::Seal(uint64_t id) {
  CheckpointManifest manifest;
  CheckpointInfo info;
  {
    std::lock_guard lock(mutex_);
    const auto& snapshot = core_.checkpoint_under_way();
    if (!snapshot || snapshot->checkpoint != id) {
      return absl::InternalError(absl::StrCat("checkpoint ", id, " is not under way"));
    }
    manifest.set_id(id);
    *manifest.mutable_config() = core_.config();
    *manifest.mutable_model() = *core_.model();
    *manifest.mutable_placement() = *core_.placement();
    manifest.set_name(snapshot->name);
    manifest.set_clock(snapshot->position.clock);
    manifest.set_epoch(snapshot->position.epoch);
    *manifest.mutable_remaining() = snapshot->position.remaining.Save();
    manifest.set_batches_per_epoch(core_.batches_per_epoch());
    manifest.set_epoch_progress(
        ProgressAt(snapshot->position, static_cast<uint32_t>(core_.batches_per_epoch())));
    manifest.set_seconds_trained(core_.SecondsTrained(SteadyNow()));
    *manifest.mutable_hyper() = snapshot->hyper;
    *manifest.mutable_total() = snapshot->total;
    manifest.mutable_evaluations()->Add(snapshot->evaluations.begin(), snapshot->evaluations.end());
  }
  for (const ShardReceipt& receipt : written_.receipts) {
    *manifest.add_shards() = receipt;
    info.set_bytes(info.bytes() + receipt.bytes());
  }
  info.set_id(id);
  info.set_epoch(manifest.epoch_progress());
  info.set_clock(manifest.clock());
  info.set_name(manifest.name());
  Reach(options_.failpoint.get(), Failpoint::kCheckpointSealing);
  PSGD_RETURN_IF_ERROR(store_.Seal(std::move(manifest)));
  Reach(options_.failpoint.get(), Failpoint::kCheckpointSealed);
  const absl::Status pruned = store_.Prune(options_.config.durability().keep()).status();
  if (!pruned.ok()) options_.log->warn("old checkpoints: {}", pruned.ToString());
  {
    std::lock_guard lock(mutex_);
    checkpoints_.emplace_back(info, SteadyNow());
    // As the store does.
    const auto unnamed = [](const auto& entry) { return entry.first.name().empty(); };
    const auto keep = static_cast<std::ptrdiff_t>(options_.config.durability().keep());
    if (std::count_if(checkpoints_.begin(), checkpoints_.end(), unnamed) > keep) {
      checkpoints_.erase(std::find_if(checkpoints_.begin(), checkpoints_.end(), unnamed));
    }
  }
  if (options_.on_checkpoint) options_.on_checkpoint(info);
  return absl::OkStatus();
}

absl::StatusOr<CheckpointReply> ParameterServer::Checkpoint(const CheckpointRequest& request) {
  PSGD_RETURN_IF_ERROR(CheckNewName(store_, request.name()));
  std::unique_lock lock(mutex_);
  PSGD_ASSIGN_OR_RETURN(const uint64_t id, core_.RequestCheckpoint(request.name()));
  CheckpointReply reply;
  reply.set_id(id);
  if (request.begin_only()) return reply;
  const auto written = [&] {
    return std::find_if(checkpoints_.begin(), checkpoints_.end(),
                        [&](const auto& entry) { return entry.first.id() == id; });
  };
  changed_.wait_for(lock, Milliseconds(options_.config.cluster().deadline()), [&] {
    return stopping_ || written() != checkpoints_.end() || failed_checkpoints_.count(id) > 0;
  });
  if (auto failed = failed_checkpoints_.find(id); failed != failed_checkpoints_.end()) {
    return failed->second;
  }
  auto info = written();
  if (info == checkpoints_.end()) {
    return absl::DeadlineExceededError(absl::StrCat(
        "checkpoint ", id,
        " was asked for but no worker has reached the end of its segment within ",
        "cluster.deadline; it will be taken when they do (cluster.segment sets how often)"));
  }
  reply.set_epoch(info->first.epoch());
  reply.set_clock(info->first.clock());
  reply.set_name(info->first.name());
  return reply;
}

}  // namespace psgd
