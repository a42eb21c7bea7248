// What the run's leader does besides holding copies: it answers workers and people, gives orders to
// the shards, and stores and announces what is decided: by the coordinator about training, by the
// CopyAssigner about servers and copies. A state machine without IO, threads or clock.
//
// A decision is announced only after the run store has it. A server that takes over continues from
// the store, so an announced decision is never lost. Decisions made during a write are stored
// together by the next write.
//
// Joins of workers are not stored before training begins: there are no weights to lose yet.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/cluster/checkpoint_parts.h"
#include "server/cluster/copy_assigner.h"
#include "server/cluster/late_watch.h"
#include "server/cluster/order_progress.h"
#include "server/cluster/server_effects.h"
#include "server/cluster/stored_run.h"
#include "server/cluster/taken_checkpoints.h"
#include "server/cluster/wait_news.h"
#include "server/coordinator/coordinator_core.h"
#include "server/coordinator/order_book.h"
#include "server/shard/quarantine.h"

namespace psgd {

struct RunLeaderOptions {
  CoordinatorOptions coordinator;
  uint32_t server = 0;        // this server
  size_t copies = 1;          // of each shard
  size_t servers = 1;         // servers that must connect before training begins
  Duration patience{};        // how long a server may be silent before others lead its shards
  uint32_t replaced = 0;      // see CopyAssignerOptions
  bool shared_store = false;  // the run store is not on this server's disk
  // For a secured run: the public key of its data ports, and the source of workers' tokens.
  std::string curve_key;
  std::function<std::string()> draw_token;  // null: the run is not secured
  uint64_t trace_steps = 0;                 // steps whose spans each worker reports
};

// The record of a new run. The server `self` leads the run and all of its shards.
RunRecord FirstRecord(const std::string& run_id, const RunServer& self, uint32_t shards);
// The same run under the next epoch, led by the server `self`.
RunRecord TakenOver(RunRecord record, const RunServer& self);

// Not thread-safe.
class RunLeader {
 public:
  // Leads the run whose record was stored at `revision`. `plan`: null if training has not begun.
  static absl::StatusOr<std::unique_ptr<RunLeader>> Make(RunLeaderOptions options, int64_t revision,
                                                         RunRecord record, const RunPlan* plan,
                                                         Time now);

  // A server reports its state on that link; or the link is broken.
  void OnState(uint64_t link, const ServerState& state, Time now, ServerEffects* effects);
  void OnLinkGone(uint64_t link, Time now) { copies_.OnLinkGone(link, now); }
  // Outcomes of effects.
  void OnStoreWritten(const absl::StatusOr<int64_t>& revision, Time now, ServerEffects* effects);
  // The run store keeps this server's lease, which it was asked for at that time. A write does not
  // renew the lease.
  void OnConfirmed(Time asked) { confirmed_ = asked; }
  void OnOrderDone(uint32_t shard, uint64_t epoch, uint64_t number, const absl::Status& status,
                   Time now, ServerEffects* effects);
  // A part of a checkpoint is here. False: the checkpoint does not need this part.
  bool OnPartCame(uint64_t checkpoint, uint32_t shard, ServerEffects* effects) const;
  void OnPart(uint64_t checkpoint, uint32_t shard, const absl::StatusOr<ShardReceipt>& receipt,
              Time now, ServerEffects* effects);
  void OnSealed(uint64_t checkpoint, const absl::StatusOr<SealedCheckpoint>& sealed, Time now,
                ServerEffects* effects);
  void OnQuarantined(QuarantinedWorker worker, Time now, ServerEffects* effects);
  // An Answer effect follows, perhaps much later.
  void OnRequest(uint64_t request, const ControlRequest& asked, Time now, ServerEffects* effects);
  // Call this at least ten times per `patience`.
  void Tick(Time now, ServerEffects* effects);
  // The run's results are saved, so no server is needed any more. REQUIRES: trained().
  void Close(Time now, ServerEffects* effects);

  // Why this server no longer leads: another server does, or the run cannot go on. OK: it leads.
  const absl::Status& deposed() const { return deposed_; }
  const CoordinatorCore& coordinator() const { return coordinator_; }
  const RunRecord& stored() const { return store_.run().record; }
  const std::map<uint32_t, CoordinatorRecord::Pass>& passes() const { return passes_; }
  int64_t revision() const { return store_.revision(); }
  // Links to the other connected servers.
  std::vector<uint64_t> links() const { return copies_.links(); }
  // What the run waits for, in words; empty: it waits for nothing.
  std::string WaitsFor() const;
  // Somebody asked the run to stop before its training was done, or after that.
  bool asked_to_stop() const { return asked_to_stop_ || coordinator_.asked_to_end(); }
  // A run store that other servers reach, too, does not answer for longer than a moment.
  bool shared_store_is_away() const {
    return options_.shared_store && wait_news_.told() && !store_.trouble().empty();
  }
  // Training is over, every shard knows, and no worker is left.
  bool trained() const;
  // The store says that the run is over.
  bool closed() const { return stored().over(); }

 private:
  struct Pending {
    uint64_t request = 0;
    absl::StatusOr<ControlReply> reply;
    uint64_t change = 0;  // change that must be stored first
    uint64_t order = 0;   // order that must be carried out first
    Time deadline{};
  };

  RunLeader(RunLeaderOptions options, int64_t revision, RunRecord record, Time now);
  absl::Status Restore(const RunPlan& plan, Time now);

  template <typename Reply>
  void AnswerOnceStored(uint64_t request, absl::StatusOr<Reply> reply, Effects decided, Time now);
  absl::StatusOr<NextSegmentReply> NextSegment(const NextSegmentRequest& request, Time now,
                                               Effects* decided);
  absl::StatusOr<JoinReply> Join(const JoinRequest& request, Time now, Effects* decided,
                                 ServerEffects* effects);
  void Heartbeat(uint64_t request, const HeartbeatRequest& asked, Time now, ServerEffects* effects);
  void BeginCheckpoint(uint64_t request, const CheckpointRequest& asked, Time now,
                       ServerEffects* effects);
  void Resume();
  // Ends the passes of the workers that the commands remove.
  void Expel(const std::vector<ShardCommand>& commands);
  Leaders LeadersNow() const;
  absl::StatusOr<RegisterReply> Register(const RegisterRequest& request, Time now,
                                         Effects* decided);
  StatusReply Status(Time now) const;
  // What cannot be written: journals, the run store, the last checkpoint.
  std::vector<std::string> StorageTroubles() const;
  void LookWhatWaits(Time now, ServerEffects* effects);
  std::optional<LateWorkers> LookWhoIsLate(Time now);
  // For people. Empty: the workers have a good reason to be late.
  std::string WaitsForWorkers(const LateWorkers& late) const;
  // REQUIRES: every part of the checkpoint under way is written.
  void Seal(Time now, ServerEffects* effects);
  // Whether the checkpoint under way is written again later: this part of it, or its seal. That may
  // be so for the last checkpoint while the disk is full.
  bool WaitsForRoom(std::optional<uint32_t> part, const absl::Status& status, Time now);
  bool WaitsOnForRoom(Time now);
  void WriteLastCheckpointAgain(Time now, ServerEffects* effects);
  void Decide(Effects decided);
  void AnswerNow(uint64_t request, absl::StatusOr<ControlReply> reply, ServerEffects* effects);

  std::vector<std::string> Endpoints() const;
  bool EndpointsKnown() const;

  // Settles each shard's copies, gives orders, stores what is decided, and tells what is stored.
  void SettleStoreAndTell(Time now, ServerEffects* effects);
  void Store(Time now, ServerEffects* effects);
  void GiveOrders(Time now, ServerEffects* effects);
  void Assign(ServerEffects* effects);
  void AnswerPending(Time now, ServerEffects* effects);
  RunRecord RecordNow(Time now) const;
  bool CountsAreNew(Time now) const;
  // Number of the last decided change.
  uint64_t Changes() const { return changes_ + copies_.changes(); }
  bool AllStored() const { return store_.run().changes == Changes(); }
  bool training() const { return copies_.record().has_plan(); }
  void Lose(const std::string& why);
  // Whether this server still has its lease in the run store. Otherwise another server may lead the
  // run.
  bool IsConfirmed(Time now) const { return now < confirmed_ + options_.patience; }

  const RunLeaderOptions options_;
  CoordinatorCore coordinator_;
  OrderBook orders_;
  // It has the record as decided. The coordinator's part is filled in when the record is stored.
  CopyAssigner copies_;
  absl::Status deposed_;
  absl::Status lost_;  // why the run cannot go on; told once the store has `lost_change_`
  uint64_t lost_change_ = 0;

  StoredRun store_;
  Time confirmed_{};
  uint64_t changes_ = 0;  // decided changes, besides those of `copies_`

  OrderProgress progress_;
  bool gathered_ = false;  // all servers that training waits for have connected

  std::deque<Pending> pending_;
  std::vector<std::string> news_;
  uint64_t checkpoint_done_ = 0;
  uint64_t unsealed_ = 0;  // a checkpoint whose parts are discarded once the store has its end
  CheckpointParts parts_;  // of the checkpoint under way
  TakenCheckpoints checkpoints_;

  std::map<uint32_t, CoordinatorRecord::Pass> passes_;  // by worker; in a secured run
  std::vector<WorkerKey> expelled_;                     // workers whose Expel effects are due
  bool counts_changed_ = false;  // reports may have changed counts since the last write
  Time store_counts_{};          // earliest time for the next write of counts
  WaitNews wait_news_;
  LateWatch late_watch_;
  bool closing_ = false;
  bool asked_to_stop_ = false;
};

}  // namespace psgd
