#include "tests/sim/sim_disk.h"

#include <string>
#include <utility>
#include <vector>

namespace psgd::sim {

class SimDisk::Place final : public CopyDisk {
 public:
  Place(SimDisk* disk, uint32_t shard) : disk_(disk), shard_(shard) {}

  bool Exists(CopySpot spot) const override { return At(spot).contains(shard_); }
  absl::Status Rename(CopySpot from, CopySpot to) override {
    PSGD_RETURN_IF_ERROR(Begin());
    At(to)[shard_] = std::move(At(from).extract(shard_).mapped());
    return absl::OkStatus();
  }
  absl::Status Discard(CopySpot spot) override {
    PSGD_RETURN_IF_ERROR(Begin());
    At(spot).erase(shard_);
    return absl::OkStatus();
  }
  absl::StatusOr<DurableShardOptions> Create() override {
    PSGD_RETURN_IF_ERROR(Begin());
    disk_->places_.erase(shard_);
    // A full disk takes no journal, or takes it and no image.
    if (disk_->full_ && disk_->chance_->Happens(0.5)) {
      return absl::ResourceExhaustedError("no space left on the simulated disk");
    }
    DurableShardOptions options = disk_->OptionsOf(shard_);
    ShardDisk* const place = disk_->Find(shard_);
    if (disk_->operations_until_end_ == 1 && place != nullptr && disk_->chance_->Happens(0.5)) {
      disk_->operations_until_end_ = 0;
      place->full = true;  // the process dies before the image is written
    }
    return options;
  }
  absl::StatusOr<std::unique_ptr<DurableShard>> Read() override {
    if (!Exists(CopySpot::kPlace)) return absl::DataLossError("the simulated folder is missing");
    std::vector<std::string> notes;
    return DurableShard::Recover(disk_->OptionsOf(shard_), &notes);
  }

 private:
  std::map<uint32_t, std::unique_ptr<ShardDisk>>& At(CopySpot spot) const {
    return spot == CopySpot::kPlace ? disk_->places_ : disk_->asides_;
  }
  absl::Status Begin() {
    int& left = disk_->operations_until_end_;
    if (left > 0) --left;
    return left == 0 ? absl::AbortedError("the simulated process has died") : absl::OkStatus();
  }

  SimDisk* const disk_;
  const uint32_t shard_;
};

std::unique_ptr<CopyDisk> SimDisk::PlaceOf(uint32_t shard) {
  return std::make_unique<Place>(this, shard);
}

DurableShardOptions SimDisk::OptionsOf(uint32_t shard) {
  DurableShardOptions options = DurableShardOptionsOf(scenario_.config, shard, 1);
  if (scenario_.sabotage == Sabotage::kGateOff)
    options.shard.config.mutable_consistency()->set_staleness(-1);
  options.shard.reply_bytes = options.shard.state_reply_bytes = scenario_.reply_bytes;
  options.shard.held_bytes = scenario_.held_bytes;
  options.image_after = scenario_.image_after;
  const auto level = scenario_.config.durability().acknowledge();
  if (level == DurabilityConfig::MEMORY) return options;
  std::unique_ptr<ShardDisk>& place = places_[shard];
  if (place == nullptr) place = std::make_unique<ShardDisk>();
  place->full = full_;
  options.journal = std::make_unique<SimJournal>(
      place.get(), SimJournalOptions{level == DurabilityConfig::FSYNC, scenario_.disk_fault});
  return options;
}

ShardDisk* SimDisk::Find(uint32_t shard) {
  const auto at = places_.find(shard);
  return at == places_.end() ? nullptr : at->second.get();
}

void SimDisk::Fill(bool full) {
  full_ = full;
  for (auto& [shard, place] : places_) place->full = full;
}

void SimDisk::Clear() {
  places_.clear();
  asides_.clear();
  checkpoints_.clear();
}

void SimDisk::Crash(bool power) {
  for (auto& [shard, place] : places_) {
    place->late.clear();
    if (shard == 0) Damage(scenario_.disk_fault, place.get());
    if (power) LosePower(chance_, place.get());
    if (power && chance_->Happens(scenario_.torn_images)) TearImage(place.get());
  }
  if (!power) return;
  for (auto& [shard, aside] : asides_) LosePower(chance_, aside.get());
}

void SimDisk::BeginCheckpoint(uint64_t id) {
  checkpoints_.erase(checkpoints_.lower_bound(id), checkpoints_.end());
}

}  // namespace psgd::sim
