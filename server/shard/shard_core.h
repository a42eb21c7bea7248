// One shard: owns some slices, absorbs pushes exactly once, answers pulls within the staleness
// bound. A state machine without IO, threads or wall clock: messages and coordinator commands go
// in, messages come out. DurableShard drives it.
//
// Pushes of a worker are absorbed in the order of their sequence numbers. A repeated push is
// acknowledged again and changes nothing. A push that comes too early is refused with the expected
// number. A bad push (lengths, codes, non-finite values) uses up its number and its clock but
// changes no weight, so one bad update never stops the run.
//
// At staleness 0, SynchronousClocks applies the pushes of a clock together. Above, each push is
// applied as it comes, and pulls wait while their worker is too far ahead.
//
// This class decides which pushes count. SliceSet applies them, and PullAnswerer answers pulls.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/bytes.h"
#include "common/clock.h"
#include "common/metrics.h"
#include "common/status.h"
#include "net/message.h"
#include "net/transport.h"
#include "proto/config.pb.h"
#include "proto/journal.pb.h"
#include "server/shard/checkpoint_cut.h"
#include "server/shard/clock_schedule.h"
#include "server/shard/grace.h"
#include "server/shard/journal.h"
#include "server/shard/member_clocks.h"
#include "server/shard/open_push.h"
#include "server/shard/outbox.h"
#include "server/shard/pull_answerer.h"
#include "server/shard/quarantine.h"
#include "server/shard/shard_command.h"
#include "server/shard/slice_set.h"
#include "server/shard/slice_state.h"
#include "server/shard/snapshot.h"
#include "server/shard/synchronous_clocks.h"

namespace psgd {

struct ShardOptions {
  uint32_t shard = 0;
  Config config;  // resolved
  size_t reply_bytes = PullOptions().reply_bytes;
  size_t state_reply_bytes = 4u << 20;  // a worker's states share a message up to this
  size_t held_bytes = 1u << 30;         // pushes held back for a checkpoint or a clock
  size_t open_bytes = kMostUnpacked;    // factors of a clock's pushes that may be unpacked at once
  bool journal = false;                 // TakeJournal returns the steps to write
  uint32_t starts = 1;                  // starts of the server, including this start
};

struct ShardStats {
  uint64_t pushes = 0;
  uint64_t pulls = 0;
  uint64_t duplicates = 0;
  std::map<std::string, uint64_t> refused;  // by reason
  CountHistogram push_staleness;            // versions gained between pull and push
  CountHistogram pull_staleness;            // clocks the pulling worker led the slowest by
};

// Not thread-safe: belongs to the shard's thread.
class ShardCore {
 public:
  explicit ShardCore(ShardOptions options);
  ShardCore(const ShardCore&) = delete;
  ShardCore& operator=(const ShardCore&) = delete;

  // `number`: of the coordinator's order; 0: no number. An order that was carried out before is
  // skipped.
  absl::Status Execute(const ShardCommand& command, Outbox* out, uint64_t number = 0);
  void OnMessage(PeerId from, Message message, Outbox* out);
  // Goes on without late workers, if that is due. Call it now and then, and when grace().Ends().
  void Tick(Time now, Outbox* out);
  const Grace& grace() const { return clocks_.grace(); }
  Grace& grace() { return clocks_.grace(); }

  // The steps since the last call, in order. Their messages in the outbox may leave only after the
  // steps are written, because the messages tell of them. InstallModel makes no step: an image must
  // follow it.
  std::vector<JournalEntry> TakeJournal() { return std::exchange(journal_, {}); }
  // Overrides ShardOptions.journal from now on.
  void KeepJournal(bool keep) { keeps_journal_ = keep; }
  // Like a new ShardOptions.starts: this copy of the shard answers pulls from now on.
  void BeginLife(uint32_t starts) { pulls_.BeginLife(starts); }
  // Carries out a written step again.
  absl::Status Replay(const JournalEntry& entry);
  // False while a cut is under way: a cut is made again from the journal, so no image may replace
  // its steps.
  bool MayMakeImage() const { return !cut_ && finished_.empty(); }
  // REQUIRES: has_model() and MayMakeImage().
  ShardImage MakeImage() const;
  // REQUIRES: !has_model().
  absl::Status Restore(const ShardImage& image);

  // A checkpoint's cut, once every worker's part of it has come. Returns each cut once.
  std::optional<ShardCut> TakeFinishedCut();

  // The workers quarantined since the last call. The coordinator must hear of them, or clocks would
  // wait for them.
  std::vector<QuarantinedWorker> TakeQuarantined() { return std::exchange(quarantined_, {}); }

  // The present weights of the shard's slices, shared, not copied: slice id -> bytes.
  std::vector<std::pair<uint32_t, Bytes>> ShareWeights() const { return slices_.ShareWeights(); }

  const ShardStats& stats() const { return stats_; }
  uint64_t last_order() const { return last_order_; }
  bool has_model() const { return slices_.has_model(); }
  size_t slices() const { return slices_.size(); }
  uint64_t weight_bytes() const { return slices_.weight_bytes(); }
  size_t waiting_pulls() const { return pulls_.waiting(); }
  // Bytes of pushes that wait for slower workers or for a checkpoint.
  size_t held_bytes() const { return held_bytes_ + clocks_.bytes(); }
  // How far it is with each worker. Empty: it has no slices, so no worker waits for it.
  MemberClocks Clocks() const;
  uint64_t SlowestClock() const;
  uint64_t FastestClock() const;
  // The workers whose next push the waiting pulls need. Empty: no pull waits, or no worker is
  // ahead.
  std::vector<uint32_t> LateWorkers() const;

 private:
  using Member = MemberRecord;  // without shown_versions, which PullAnswerer has
  struct HeldPush {
    uint32_t worker;
    uint32_t incarnation;
    uint64_t clock;
    Message message;
  };

  // Commands.
  absl::Status Carry(const ShardCommand& command, Outbox* out);
  absl::Status Install(const InstallModel& command);
  void Admit(const AdmitWorker& command);
  void Remove(const RemoveWorker& command);
  void Begin(const BeginSegment& command);
  void StartCut(const TakeCheckpoint& command);

  // Pushes.
  void OnPush(PeerId from, Member& member, Message message, Outbox* out);
  // Whether a push or a state is the next of its worker. If it is not, answers the worker.
  bool IsNext(PeerId from, const DataHeader& header, absl::string_view what, uint64_t seq,
              const Member& member, Outbox* out);
  // Checks a push that is next in order, except its payloads.
  absl::Status CheckPush(const Member& member, const Push& push, size_t payloads) const;
  // `shown`: the weights that the worker was sent, if they are known.
  void ApplyNow(Member& member, std::span<const ShownWeights> shown, const Push& push,
                std::span<const SharedPayload> payloads);
  // The next clock goes on without late workers.
  void Close(Outbox* out);
  // Applies the held pushes that no cut holds back now.
  void ReleaseHeld();
  // Called after clocks moved: completes clocks, the cut, held pushes and waiting pulls.
  void Settle(Outbox* out);

  // Pulls.
  void OnPull(PeerId from, const Message& message, Outbox* out);
  void NoteAnswered(const AnsweredPull& pull);

  // Checkpoints and worker state.
  void OnSaveState(PeerId from, Member& member, const Message& message, Outbox* out);
  void OnLoadState(PeerId from, const Message& message, Outbox* out);
  // True: the cut is complete, and later pushes may go on.
  bool ProgressCut();

  // Journal and images.
  void WriteDown(const Message& message);
  void WriteDown(const WeightsShown& shown);
  absl::Status RestoreMember(const MemberRecord& record, const ShardImage& image);

  Member* Find(const DataHeader& header, PeerId from, Outbox* out);
  void Refuse(PeerId to, const DataHeader& about, Refusal::Reason reason, const std::string& detail,
              uint64_t next_seq, Outbox* out);
  void Acknowledge(PeerId to, const DataHeader& about, uint64_t next_seq, Outbox* out) const;
  DataHeader ReplyHeader(const DataHeader& about) const;

  // Constant after construction.
  const ShardOptions options_;
  const bool synchronous_;

  SliceSet slices_;
  Members members_;
  ClockSchedule schedule_;
  std::optional<CheckpointCut> cut_;
  SynchronousClocks clocks_;
  PullAnswerer pulls_;
  std::deque<HeldPush> held_;  // pushes that wait for the cut
  size_t held_bytes_ = 0;
  std::deque<ShardCut> finished_;
  uint64_t last_order_ = 0;
  bool keeps_journal_ = options_.journal;
  std::vector<JournalEntry> journal_;
  std::vector<QuarantinedWorker> quarantined_;
  ShardStats stats_;
};

}  // namespace psgd
