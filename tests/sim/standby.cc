#include "tests/sim/standby.h"

#include <algorithm>
#include <utility>

namespace psgd::sim {

Standby::Standby(uint64_t seed, size_t shards, bool waits, ShardOptionsFor options)
    : options_(std::move(options)),
      waits_(waits),
      chance_(seed, 4),
      shards_(shards),
      disks_(shards) {}

void Standby::Begin() {
  for (auto& shard : shards_) shard.reset();
  for (auto& disk : disks_) disk = std::make_unique<ShardDisk>();
  record_.clear();
  behind_ = std::make_shared<Standby*>(nullptr);
  up_ = true;
  in_chain_ = required_ = false;
}

void Standby::Die() { up_ = false; }

bool Standby::complete() const {
  return up_ && !record_.empty() &&
         std::all_of(shards_.begin(), shards_.end(),
                     [](const auto& shard) { return shard != nullptr; });
}

absl::Status Standby::Connect(uint32_t shard, const FollowerStart& start) {
  DurableShardOptions options = options_(shard);
  options.journal = std::make_unique<SimReplicatedJournal>(disks_[shard].get(), shard, behind_);
  PSGD_ASSIGN_OR_RETURN(shards_[shard], DurableShard::FromImage(std::move(options), start.image));
  return shards_[shard]->Follow(start.image.record.entry() + 1, start.entries);
}

absl::Status Standby::Deliver(const std::function<absl::Status()>& write) {
  const absl::Status nobody = absl::UnavailableError("the standby does not answer");
  if (!waits_ && required_) {
    if (up_ && chance_.Happens(0.5)) (void)write();
    return absl::OkStatus();
  }
  if (!up_) return required_ ? nobody : absl::OkStatus();
  if (required_ && chance_.Happens(0.02)) return nobody;
  PSGD_RETURN_IF_ERROR(write());
  return required_ && chance_.Happens(0.02) ? nobody : absl::OkStatus();
}

absl::Status Standby::Append(uint32_t shard, uint64_t first,
                             std::span<const JournalEntry> entries) {
  return Deliver([&]() -> absl::Status {
    if (shards_[shard] == nullptr) return absl::OkStatus();  // its image will hold them
    PSGD_RETURN_IF_ERROR(shards_[shard]->Follow(first, {entries.begin(), entries.end()}));
    if (auto image = shards_[shard]->TakeDueImage()) {
      shards_[shard]->ImageSaved(shards_[shard]->journal()->SaveImage(*image));
    }
    return absl::OkStatus();
  });
}

absl::Status Standby::Save(const std::string& record) {
  return Deliver([&] {
    record_ = record;
    CoordinatorRecord parsed;
    parsed.ParseFromString(record_);
    const uint64_t done =
        (parsed.has_under_way() ? parsed.under_way().id() : parsed.next_checkpoint()) - 1;
    for (auto& shard : shards_) {
      if (shard != nullptr) shard->CheckpointDone(done);
    }
    return absl::OkStatus();
  });
}

Standby::Held Standby::TakeOver() {
  up_ = in_chain_ = required_ = false;
  Held held{std::move(shards_), std::move(disks_), std::move(record_), behind_};
  shards_.clear();
  shards_.resize(held.shards.size());
  disks_.clear();
  disks_.resize(held.disks.size());
  return held;
}

}  // namespace psgd::sim
