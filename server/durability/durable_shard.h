// A shard whose steps are written down before anybody hears of them. What a message or an order
// caused to be said waits for Commit, which writes down all steps since the last one together
// (group commit) and then lets it go: no worker ever knows of a state that a crash could take back.
// That holds for acknowledgements and for weights alike.
//
// While the journal cannot be written (the disk is full) nothing is lost and nothing said: the
// shard answers OVERLOADED, workers wait, and all goes on where it was once there is room.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/shard/journal.h"
#include "server/shard/shard_core.h"

namespace psgd {

struct DurableShardOptions {
  ShardOptions shard;
  std::unique_ptr<Journal> journal;   // null: steps live in memory alone
  uint64_t image_after = 256u << 20;  // bytes of journal
};

// All but the journal, of a run's shard. `starts`: of the server, this one included.
DurableShardOptions DurableShardOptionsOf(const Config& config, uint32_t shard, uint32_t starts);

// A shard as an image and the steps after it.
struct CopyStart {
  ShardImage image;
  std::vector<JournalEntry> entries;
};

// Not thread-safe: belongs to the shard's thread.
class DurableShard {
 public:
  explicit DurableShard(DurableShardOptions options);
  // Makes the shard again from its journal. `notes`: what of it is damaged and was not needed.
  static absl::StatusOr<std::unique_ptr<DurableShard>> Recover(DurableShardOptions options,
                                                               std::vector<std::string>* notes);

  // Makes it from what another server sent; the journal, an empty one if any, begins with that.
  static absl::StatusOr<std::unique_ptr<DurableShard>> FromImage(DurableShardOptions options,
                                                                 const ShardImage& image);
  // Goes the next steps of the shard that it was made from, too, and writes them down; those that
  // it has gone are passed over.
  absl::Status Follow(uint64_t first, std::vector<JournalEntry> entries);
  // What a copy that follows begins with. UNAVAILABLE: not now, there is no model or a cut is under
  // way.
  absl::StatusOr<CopyStart> StartForCopy();

  void OnMessage(PeerId from, Message message);
  absl::Status Execute(const ShardCommand& command, uint64_t number);
  // What may leave goes to `out`.
  void Commit(Outbox* out);
  // Likewise; refusals, which wait for nothing, go to `refusals`, and `written` gets the steps that
  // were written down.
  void Commit(Outbox* out, Outbox* refusals, std::vector<JournalEntry>* written);
  // Some steps, or answers, wait for Commit. Without a model there is nothing to write to.
  bool has_unwritten() const {
    return core_.has_model() && (!unwritten_.empty() || !held_.empty());
  }
  // Commit gives steps from now on, also where there is no journal.
  void KeepSteps();
  // Workers' messages are refused as long as that is not OK.
  void TurnAwayWhile(absl::Status why) { turns_away_ = std::move(why); }
  // This copy of the shard leads from now on, under that epoch.
  void BeginLeading(uint64_t epoch) { core_.BeginLife(static_cast<uint32_t>(epoch)); }
  // Steps that wait for Commit are that large: time to call it, even if more messages are there.
  size_t uncommitted_bytes() const { return uncommitted_bytes_; }

  // A checkpoint's cut once it is made; at most once each in a life. Until CheckpointDone says that
  // it is written (or given up), the journal can make it again, and there is no image.
  std::optional<ShardCut> TakeFinishedCut();
  void CheckpointDone(uint64_t checkpoint);

  // An image that is due, to be saved on any thread; ImageSaved must follow.
  std::optional<ShardImage> TakeDueImage();
  void ImageSaved(const absl::Status& status);
  // The last cut that was made while the shard was made again; whoever writes checkpoints knows
  // whether it is still missing.
  std::optional<ShardCut> TakeReplayedCut() { return std::exchange(replayed_cut_, std::nullopt); }

  ShardCore& core() { return core_; }
  const ShardCore& core() const { return core_; }
  Journal* journal() const { return journal_.get(); }
  // Why the journal cannot be written; OK: it can.
  const absl::Status& stalled() const { return stalled_; }
  uint64_t entries() const { return entries_; }
  // Steps so far, written down or not.
  uint64_t steps() const { return entries_ + unwritten_.size(); }
  uint64_t journal_bytes() const { return bytes_since_image_; }

 private:
  absl::Status Replay(std::vector<std::string>* notes);
  absl::Status FirstImage();
  // All steps so far, written down or not.
  ShardImage ImageNow() const;
  absl::Status ReplayEntry(const JournalEntry& entry);
  void Gather();
  void TurnAway(PeerId from, const Message& message);

  const std::unique_ptr<Journal> journal_;
  const uint64_t image_after_;
  const uint32_t shard_;
  ShardCore core_;
  uint64_t entries_ = 0;  // written down
  std::vector<JournalEntry> unwritten_;
  size_t uncommitted_bytes_ = 0;
  Outbox held_;         // waits for them
  Outbox turned_away_;  // waits for nothing
  absl::Status stalled_, turns_away_;
  bool keeps_steps_ = false;  // although there is no journal
  uint64_t bytes_since_image_ = 0;
  bool image_under_way_ = false;
  uint64_t cut_ = 0;       // the latest checkpoint that a cut was taken for
  uint64_t cut_done_ = 0;  // the latest that is written or given up
  std::optional<ShardCut> replayed_cut_;
};

}  // namespace psgd
