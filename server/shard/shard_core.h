// One shard: owns some slices, absorbs pushes exactly once, answers pulls within the staleness
// bound. A state machine without IO, threads or wall clock: messages and coordinator commands go
// in, messages come out. DurableShard drives it.
//
// Pushes of a worker are absorbed in the order of their sequence numbers. A repeated push is
// acknowledged again and changes nothing. A push that comes too early is refused with the expected
// number. A bad push (lengths, codes, non-finite values) uses up its number and its clock but
// changes no weight, so one bad update never stops the run.
//
// staleness 0: the pushes of a clock wait for each other and are applied as one update, summed in
// the order of worker numbers, so the result does not depend on which worker was first. Otherwise:
// each push is applied as it comes, and pulls wait while their worker is too far ahead.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "common/metrics.h"
#include "common/status.h"
#include "compression/codec.h"
#include "net/message.h"
#include "net/transport.h"
#include "proto/config.pb.h"
#include "server/shard/journal.h"
#include "server/shard/open_push.h"
#include "server/shard/shard_command.h"
#include "server/shard/slice_state.h"
#include "server/shard/snapshot.h"
#include "server/shard/weights_encoder.h"

namespace psgd {

struct ShardOptions {
  uint32_t shard = 0;
  Config config;                      // resolved
  size_t reply_bytes = 4u << 20;      // slices of a pull reply share a message up to this
  size_t held_bytes = 1u << 30;       // pushes held back for a checkpoint or a clock
  size_t open_bytes = kMostUnpacked;  // factors of a clock's pushes that may be unpacked at once
  bool journal = false;               // TakeJournal returns the steps to write
  uint32_t starts = 1;                // starts of the server, including this start
};

struct Outgoing {
  PeerId to = 0;
  Message message;
};
using Outbox = std::vector<Outgoing>;

struct ShardStats {
  uint64_t pushes = 0;
  uint64_t pulls = 0;
  uint64_t duplicates = 0;
  std::map<std::string, uint64_t> refused;  // by reason
  CountHistogram push_staleness;            // versions gained between pull and push
  CountHistogram pull_staleness;            // clocks the pulling worker led the slowest by
};

// A worker that sent only bad pushes for too long (cluster.quarantine). The shard ignores it.
struct QuarantinedWorker {
  WorkerKey key;
  std::string why;
};

// A finished cut, ready to be written.
struct ShardCut {
  uint64_t checkpoint = 0;
  ShardSnapshot snapshot;
};

// Not thread-safe: belongs to the shard's thread.
class ShardCore {
 public:
  explicit ShardCore(ShardOptions options);

  // `number`: of the coordinator's order; 0: no number. An order that was carried out before is
  // skipped.
  absl::Status Execute(const ShardCommand& command, Outbox* out, uint64_t number = 0);
  void OnMessage(PeerId from, Message message, Outbox* out);

  // The steps since the last call, in order. Their messages in the outbox may leave only after the
  // steps are written, because the messages tell of them. InstallModel makes no step: an image must
  // follow it.
  std::vector<JournalEntry> TakeJournal() { return std::exchange(journal_, {}); }
  // Overrides ShardOptions.journal from now on.
  void KeepJournal(bool keep) { keeps_journal_ = keep; }
  // Like a new ShardOptions.starts: this copy of the shard answers pulls from now on.
  void BeginLife(uint32_t starts) { weights_encoder_.BeginLife(starts); }
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
  std::vector<std::pair<uint32_t, Bytes>> ShareWeights() const;

  const ShardStats& stats() const { return stats_; }
  uint64_t last_order() const { return last_order_; }
  bool has_model() const { return model_ != nullptr; }
  size_t slices() const { return slices_.size(); }
  uint64_t weight_bytes() const;
  size_t waiting_pulls() const { return waiting_.size(); }
  // Bytes of pushes that wait for slower workers or for a checkpoint.
  size_t held_bytes() const { return held_bytes_ + gathered_bytes_; }
  uint64_t SlowestClock() const;
  uint64_t FastestClock() const;

 private:
  struct PulledWeights {
    uint64_t version = 0;
    Bytes weights;
  };
  struct Member {
    uint32_t incarnation = 0;
    bool live = false;     // admitted and not removed
    bool running = false;  // takes part in the clocks
    uint64_t next_seq = 1;
    uint64_t clock = 0;                 // steps whose pushes are absorbed (staleness 0: applied)
    uint64_t arrived_clock = 0;         // steps whose pushes have come in whole
    uint64_t first_clock = 0;           // the worker takes part in later clocks
    std::vector<uint64_t> slice_clock;  // by local slice: the last clock that pushed it
    bool pushed = false;                // this incarnation has pushed
    int32_t bad_in_row = 0;             // pushes refused since its last sound clock
    uint64_t bad_clock = 0;             // the latest clock with a refused push
    std::string quarantined;            // why the worker is ignored; empty: it is heard
    std::vector<PulledWeights> pulled;  // by local slice, for delay compensation
    std::vector<SentWeights> sent;      // by local slice, for lossy differences
  };
  struct HeldPush {
    uint32_t worker;
    uint32_t incarnation;
    uint64_t clock;
    Message message;
  };
  struct WaitingPull {
    PeerId from;
    WorkerKey key;
    uint64_t request;
    uint64_t clock;
    uint64_t own_clock;
    std::vector<std::pair<uint32_t, uint64_t>> slices;  // local indices and the worker's marks
  };
  struct Cut {
    uint64_t id = 0;
    uint64_t clock = 0;
    std::map<uint32_t, bool> saved;  // worker -> whether its state has come
    ShardSnapshot snapshot;
  };

  // Commands.
  absl::Status Carry(const ShardCommand& command, Outbox* out);
  absl::Status Install(const InstallModel& command);
  absl::Status MakeSlices(const InstallModel& command);
  void Admit(const AdmitWorker& command);
  void Remove(const RemoveWorker& command, Outbox* out);
  void Begin(const BeginSegment& command);
  void StartCut(const TakeCheckpoint& command);

  // Pushes.
  void OnPush(PeerId from, Member& member, Message message, Outbox* out);
  // Checks a push that is next in order, except its payloads.
  absl::Status CheckPush(const Member& member, const Push& push, size_t payloads) const;
  // Count a push that was next in order as sound or bad, for the quarantine.
  void CountSound(const Push& push, Member& member) const;
  void CountBad(const DataHeader& header, uint64_t clock, const absl::Status& bad, Member& member);
  void ApplyNow(Member& member, const Push& push, const std::vector<OpenedPart>& parts);
  void ApplyClocks();
  void ApplyGathered(uint64_t clock, const std::map<uint32_t, std::vector<Message>>& by_worker);
  // Applies the parts of a clock's pushes for one tensor.
  void ApplyTensor(std::span<const WaitingPayload> payloads, const UpdateRates& rates);
  // Applies the held pushes that no cut holds back now.
  void ReleaseHeld();
  // Called after clocks moved: completes clocks, the cut, held pushes and waiting pulls.
  void Settle(Outbox* out);
  UpdateRates RatesAt(uint64_t clock) const;
  float ContributionScale(size_t contributors) const;

  // Pulls.
  void OnPull(PeerId from, Member& member, const Message& message, Outbox* out);
  bool Allowed(const WaitingPull& pull, uint64_t slowest) const;
  size_t WholeTensor(const WaitingPull& pull, size_t i) const;
  void Reply(const WaitingPull& pull, Outbox* out);
  // Remembers the slices (local indices) that a worker was sent, if delay compensation needs them.
  void Show(uint32_t worker, const std::vector<uint32_t>& slices);

  // Checkpoints and worker state.
  void OnSaveState(PeerId from, Member& member, const Message& message, Outbox* out);
  // Adds the residuals of the resumed checkpoint that their workers have not pushed yet, except
  // those of the workers `but`.
  void AddUnclaimed(const std::set<uint32_t>& but, ShardSnapshot* snapshot) const;
  void OnLoadState(PeerId from, const Message& message, Outbox* out);
  // True: the cut is complete, and later pushes may go on.
  bool ProgressCut();
  bool HoldsBack(uint64_t clock) const { return cut_ && clock > cut_->clock; }

  // Images.
  void WriteDown(const Message& message);
  void SaveMembers(ShardImage* image) const;
  absl::Status RestoreMember(const MemberRecord& record, const ShardImage& image);
  absl::Status RestoreWaiting(const WaitingPush& waiting);

  Member* Find(const DataHeader& header, PeerId from, Outbox* out);
  void Refuse(PeerId to, const DataHeader& about, Refusal::Reason reason, const std::string& detail,
              uint64_t next_seq, Outbox* out);
  void Acknowledge(PeerId to, const DataHeader& about, uint64_t next_seq, Outbox* out) const;
  DataHeader ReplyHeader(const DataHeader& about) const;
  std::optional<uint32_t> Local(uint32_t slice) const;

  // Constant after construction.
  const ShardOptions options_;
  const bool synchronous_;
  const bool unbounded_;
  const CodecTable codecs_;
  WeightsEncoder weights_encoder_;

  // Constant after Install.
  std::shared_ptr<const ModelSpec> model_;
  std::shared_ptr<const Placement> placement_;
  std::unique_ptr<SliceUpdater> updater_;  // outlives the slices, whose memory it pools
  std::vector<SliceState> slices_;
  std::vector<int64_t> local_;  // slice id -> index in slices_, or -1

  HyperParameters hyper_;
  std::map<uint32_t, Member> members_;
  std::map<uint64_t, Segment> segments_;  // by first clock
  uint64_t completed_ = 0;                // staleness 0: clocks applied
  uint32_t awaited_ = 0;  // staleness 0: a worker that the next clock lacked at the last look
  // staleness 0: absorbed pushes that are not applied yet, by clock and worker.
  std::map<uint64_t, std::map<uint32_t, std::vector<Message>>> gathered_;
  size_t gathered_bytes_ = 0;
  std::deque<HeldPush> held_;  // pushes that wait for the cut
  size_t held_bytes_ = 0;
  std::deque<WaitingPull> waiting_;
  std::optional<Cut> cut_;
  std::deque<ShardCut> finished_;
  uint64_t last_order_ = 0;
  bool keeps_journal_ = options_.journal;
  std::vector<JournalEntry> journal_;
  std::vector<QuarantinedWorker> quarantined_;
  ShardStats stats_;
};

}  // namespace psgd
