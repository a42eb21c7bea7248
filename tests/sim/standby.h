// A server of the simulation that follows the first, and may take over: what it holds, and the ways
// in which the connection to it fails. Real are the shards that follow; the leader waits for them
// as server/control/replicated_journal.h does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/durability/durable_shard.h"
#include "simulate/chance.h"
#include "tests/sim/storage.h"

namespace psgd::sim {

// Not thread-safe.
class Standby {
 public:
  // `options`: of a shard, without its journal.
  using ShardOptionsFor = std::function<DurableShardOptions(uint32_t shard)>;
  // `waits`: or else the leader goes on without its answer, which is wrong.
  Standby(uint64_t seed, size_t shards, bool waits, ShardOptionsFor options);

  // It is there and empty: nobody waits for it, and it may not take over.
  void Begin();
  void Die();
  bool up() const { return up_; }
  bool may_lead() const { return up_ && in_chain_; }
  bool connected(uint32_t shard) const { return up_ && shards_[shard] != nullptr; }
  bool complete() const;
  void TakeIn() { in_chain_ = required_ = true; }
  absl::Status Connect(uint32_t shard, const FollowerStart& start);

  // The leader's next entries, or its record. UNAVAILABLE: it is waited for, and did not answer; it
  // may have written them all the same.
  absl::Status Append(uint32_t shard, uint64_t first, std::span<const JournalEntry> entries);
  absl::Status Save(const std::string& record);

  // What it holds, which it then no longer does. REQUIRES: may_lead().
  struct Held {
    std::vector<std::unique_ptr<DurableShard>> shards;
    std::vector<std::unique_ptr<ShardDisk>> disks;
    std::string record;
    std::shared_ptr<Standby*> behind;  // who follows these shards from now on
  };
  Held TakeOver();

 private:
  // Does it, or not; and says so, or not.
  absl::Status Deliver(const std::function<absl::Status()>& write);

  const ShardOptionsFor options_;
  const bool waits_;
  Chance chance_;
  std::vector<std::unique_ptr<DurableShard>> shards_;
  std::vector<std::unique_ptr<ShardDisk>> disks_;
  std::string record_;
  std::shared_ptr<Standby*> behind_;
  bool up_ = false;
  bool in_chain_ = false;
  bool required_ = false;  // also while it is dead
};

// A journal of one shard that a standby keeps as well, if there is one behind it.
class SimReplicatedJournal final : public Journal {
 public:
  SimReplicatedJournal(ShardDisk* disk, uint32_t shard, std::shared_ptr<Standby*> behind)
      : local_(disk, {}), shard_(shard), behind_(std::move(behind)) {}

  absl::Status Append(uint64_t first, std::span<const JournalEntry> entries) override {
    PSGD_RETURN_IF_ERROR(local_.Append(first, entries));
    return *behind_ == nullptr ? absl::OkStatus() : (*behind_)->Append(shard_, first, entries);
  }
  absl::Status BeginLog(uint64_t first) override { return local_.BeginLog(first); }
  absl::Status SaveImage(const ShardImage& image) override { return local_.SaveImage(image); }
  absl::StatusOr<ShardImage> LoadImage(std::vector<std::string>* notes) override {
    return local_.LoadImage(notes);
  }
  absl::Status Replay(uint64_t entry,
                      const std::function<absl::Status(const JournalEntry&)>& take) override {
    return local_.Replay(entry, take);
  }

 private:
  SimJournal local_;
  const uint32_t shard_;
  const std::shared_ptr<Standby*> behind_;
};

}  // namespace psgd::sim
