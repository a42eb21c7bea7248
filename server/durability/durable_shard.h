// A shard whose steps are written before anybody hears of them. Answers to messages and orders wait
// for Commit. Commit writes all steps since the last Commit together (group commit), and then
// releases the answers. So no worker ever knows of a state that a crash could take back. That holds
// for acknowledgements and for weights.
//
// While the journal cannot be written (the disk is full), nothing is lost and nothing is answered:
// the shard replies OVERLOADED, and workers wait. All goes on as soon as there is room.
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
  std::unique_ptr<Journal> journal;   // null: steps live in memory only
  uint64_t image_after = 256u << 20;  // bytes of journal until the next image
};

// The options of a run's shard, except the journal. `starts`: starts of the server, including this
// start.
DurableShardOptions DurableShardOptionsOf(const Config& config, uint32_t shard, uint32_t starts);

// Not thread-safe: belongs to the shard's thread.
class DurableShard {
 public:
  explicit DurableShard(DurableShardOptions options);
  // Makes the shard again from its journal. `notes` names damaged parts that were not needed.
  static absl::StatusOr<std::unique_ptr<DurableShard>> Recover(DurableShardOptions options,
                                                               std::vector<std::string>* notes);

  // Makes the shard from another server's image. The journal, if any, must be empty and begins with
  // the image.
  static absl::StatusOr<std::unique_ptr<DurableShard>> FromImage(DurableShardOptions options,
                                                                 const ShardImage& image);
  // Carries out and writes the next steps of the leading copy. Steps that this copy already has are
  // skipped.
  absl::Status Follow(uint64_t first, std::vector<JournalEntry> entries);
  // An image with which another server's copy begins. nullopt: there is no model yet, or a
  // checkpoint is being taken. A copy that begins after its cut could not make the cut again.
  std::optional<ShardImage> ImageForCopy() const;

  void OnMessage(PeerId from, Message message);
  absl::Status Execute(const ShardCommand& command, uint64_t number);
  // `lost`: how long this process stood still since the last call.
  void Tick(Time now, Duration lost);
  // Writes the steps, and puts them into `written`. Puts answers that may leave into `out`, and
  // refusals, which wait for nothing, into `refusals`.
  void Commit(Outbox* out, Outbox* refusals, std::vector<JournalEntry>* written);
  // Whether steps or answers wait for Commit. False without a model: there is nothing to write to.
  bool has_unwritten() const {
    return core_.has_model() && (!unwritten_.empty() || !held_.empty());
  }
  // Makes Commit return steps from now on, even without a journal.
  void KeepSteps();
  // Refuses workers' messages as long as `why` is not OK.
  void TurnAwayWhile(absl::Status why) { turns_away_ = std::move(why); }
  // This copy of the shard leads from now on, under `epoch`.
  void BeginLeading(uint64_t epoch) { core_.BeginLife(static_cast<uint32_t>(epoch)); }
  // Bytes of the steps that wait for Commit. If they are many, Commit is due even if more messages
  // wait.
  size_t uncommitted_bytes() const { return uncommitted_bytes_; }

  // A checkpoint's cut, once it is made. Each cut is returned at most once by this object. Until
  // CheckpointDone, the journal can make the cut again, so no image is made.
  std::optional<ShardCut> TakeFinishedCut();
  void CheckpointDone(uint64_t checkpoint);

  // An image that is due. Any thread may save it; ImageSaved must follow.
  std::optional<ShardImage> TakeDueImage();
  void ImageSaved(const absl::Status& status);
  // The last cut that recovery made again. The writer of checkpoints knows whether it is still
  // missing.
  std::optional<ShardCut> TakeReplayedCut() { return std::exchange(replayed_cut_, std::nullopt); }

  ShardCore& core() { return core_; }
  const ShardCore& core() const { return core_; }
  Journal* journal() const { return journal_.get(); }
  // Why the journal cannot be written; OK: it can be written.
  const absl::Status& stalled() const { return stalled_; }
  uint64_t entries() const { return entries_; }
  // All steps so far, written or not.
  uint64_t steps() const { return entries_ + unwritten_.size(); }
  uint64_t journal_bytes() const { return journal_ == nullptr ? 0 : bytes_since_image_; }

 private:
  absl::Status Replay(std::vector<std::string>* notes);
  absl::Status FirstImage();
  bool MayMakeImage() const {
    return core_.has_model() && cut_ <= cut_done_ && core_.MayMakeImage();
  }
  // The image after all steps so far, written or not.
  ShardImage ImageNow() const;
  absl::Status ReplayEntry(const JournalEntry& entry);
  void Gather();
  void TurnAway(PeerId from, const Message& message);

  const std::unique_ptr<Journal> journal_;
  const uint64_t image_after_;
  const uint32_t shard_;
  ShardCore core_;
  uint64_t entries_ = 0;  // written entries
  std::vector<JournalEntry> unwritten_;
  size_t uncommitted_bytes_ = 0;
  Outbox held_;         // answers that wait for unwritten_
  Outbox turned_away_;  // refusals, which wait for nothing
  absl::Status stalled_, turns_away_;
  bool keeps_steps_ = false;  // even without a journal
  uint64_t bytes_since_image_ = 0;
  bool image_under_way_ = false;
  uint64_t cut_ = 0;       // the latest checkpoint with a cut
  uint64_t cut_done_ = 0;  // the latest checkpoint that is written or given up
  std::optional<ShardCut> replayed_cut_;
};

}  // namespace psgd
