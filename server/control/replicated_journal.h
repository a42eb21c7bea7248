// A journal that the followers keep as well: what is appended is written here, and then by each of
// them. So a follower never has an entry that is not in the leader's journal.
#pragma once

#include <memory>

#include "server/control/follower_set.h"
#include "server/shard/journal.h"

namespace psgd {

// Thread-safe as Journal says.
class ReplicatedJournal final : public Journal {
 public:
  ReplicatedJournal(std::unique_ptr<Journal> local, uint32_t shard,
                    std::shared_ptr<FollowerSet> followers)
      : local_(std::move(local)), shard_(shard), followers_(std::move(followers)) {}

  // UNAVAILABLE: a follower that is waited for has not written it.
  absl::Status Append(uint64_t first, std::span<const JournalEntry> entries) override;
  absl::Status BeginLog(uint64_t first) override { return local_->BeginLog(first); }
  absl::Status SaveImage(const ShardImage& image) override { return local_->SaveImage(image); }
  absl::StatusOr<ShardImage> LoadImage(std::vector<std::string>* notes) override {
    return local_->LoadImage(notes);
  }
  absl::Status Replay(uint64_t entry,
                      const std::function<absl::Status(const JournalEntry&)>& take) override {
    return local_->Replay(entry, take);
  }

 private:
  const std::unique_ptr<Journal> local_;
  const uint32_t shard_;
  const std::shared_ptr<FollowerSet> followers_;
  uint64_t written_ = 0;  // here, and given to the followers
};

}  // namespace psgd
