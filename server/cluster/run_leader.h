// What the run's leader does besides holding copies: it answers workers and people, gives orders to
// the shards, and decides which server holds which copy and leads which shard. A state machine
// without IO, threads or clock.
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
#include <set>
#include <string>
#include <vector>

#include "server/cluster/copies.h"
#include "server/cluster/server_effects.h"
#include "server/coordinator/coordinator_core.h"
#include "server/coordinator/order_book.h"

namespace psgd {

struct RunLeaderOptions {
  CoordinatorOptions coordinator;
  uint32_t server = 0;  // this server
  size_t copies = 1;    // of each shard
  size_t servers = 1;   // servers that must connect before training begins
  Duration patience{};  // how long a server may be silent before others lead its shards
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
  void OnLinkGone(uint64_t link);
  // Outcomes of effects.
  void OnStoreWritten(const absl::StatusOr<int64_t>& revision, Time now, ServerEffects* effects);
  void OnOrderDone(uint32_t shard, uint64_t epoch, uint64_t number, const absl::Status& status,
                   Time now, ServerEffects* effects);
  void OnPart(uint64_t checkpoint, uint32_t shard, const absl::StatusOr<ShardReceipt>& receipt,
              Time now, ServerEffects* effects);
  void OnSealed(uint64_t checkpoint, const absl::StatusOr<CheckpointInfo>& info, Time now,
                ServerEffects* effects);
  void OnQuarantined(const WorkerKey& worker, const std::string& why, Time now,
                     ServerEffects* effects);
  // An Answer effect follows, perhaps much later.
  void OnRequest(uint64_t request, const ControlRequest& asked, Time now, ServerEffects* effects);
  // Call this at least ten times per `patience`.
  void Tick(Time now, ServerEffects* effects);
  // The run's results are saved, so no server is needed any more. REQUIRES: trained().
  void Close(Time now, ServerEffects* effects);

  // Why this server no longer leads: another server does, or the run cannot go on. OK: it leads.
  const absl::Status& deposed() const { return deposed_; }
  const CoordinatorCore& coordinator() const { return coordinator_; }
  const RunRecord& stored() const { return stored_; }
  const std::map<uint32_t, CoordinatorRecord::Pass>& passes() const { return passes_; }
  int64_t revision() const { return revision_; }
  // Links to the other connected servers.
  std::vector<uint64_t> links() const;
  // What the run waits for, in words; empty: it waits for nothing.
  std::string WaitsFor() const;
  // Training is over, every shard knows, and no worker is left.
  bool trained() const;
  // The store says that the run is over.
  bool closed() const { return stored_.over(); }

 private:
  struct Peer {
    uint64_t link = 0;  // 0: the server is away
    Time heard{};
    uint64_t came = 0;  // number of the change that recorded its arrival
    ServerState state;
    // By shard: the epoch from which a copy that this server read from its disk may lead.
    std::map<uint32_t, uint64_t> restarted;
    std::string assigned;  // the last Assignment sent on this link
  };
  struct Progress {      // how far a shard is with the orders
    uint64_t epoch = 0;  // epoch under which the orders are sent
    uint64_t link = 0;   // link on which the orders are sent
    uint64_t sent = 0;
    uint64_t done = 0;
    Time retry{};
  };
  struct Pending {
    uint64_t request = 0;
    absl::StatusOr<ControlReply> reply;
    uint64_t change = 0;  // change that must be stored first
    uint64_t order = 0;   // order that must be carried out first
    Time deadline{};
  };

  RunLeader(RunLeaderOptions options, int64_t revision, RunRecord record);
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
  absl::StatusOr<RebalanceReply> Rebalance(const RebalanceRequest& request);
  StatusReply Status(Time now) const;
  void LookWhatWaits(Time now, ServerEffects* effects);
  void EndCheckpointWaits(Time now, ServerEffects* effects);
  void Decide(Effects decided);
  void AnswerNow(uint64_t request, absl::StatusOr<ControlReply> reply, ServerEffects* effects);

  // Servers and copies.
  void Welcome(uint64_t link, const ServerState& state, Time now, ServerEffects* effects);
  // The server's copy; null: the server is away, or has no data of the shard.
  const CopyState* Find(uint32_t server, uint32_t shard) const;
  bool IsHere(uint32_t server) const;
  bool IsGone(uint32_t server, Time now) const;
  // The server's copies are lost: it keeps no journal, and is gone for longer than
  // cluster.deadline.
  bool IsLost(uint32_t server, Time now) const;
  bool GoesOn(uint32_t server, uint32_t shard) const;
  bool MayLead(uint32_t server, uint32_t shard) const;
  static void Away(Peer* peer);
  void SettleLeader(uint32_t shard, Time now);
  void Promote(uint32_t shard, uint32_t server);
  void SettleFollowers(uint32_t shard, Time now);
  // The copy that must lead the shard reports that it does.
  bool Leads(uint32_t shard) const;
  void HearReports(uint32_t shard);
  void Balance();
  std::set<uint32_t> Present() const;
  std::vector<std::string> Endpoints() const;
  bool EndpointsKnown() const;

  // Storing decisions and announcing them.
  void GoOn(Time now, ServerEffects* effects);
  void Store(Time now, ServerEffects* effects);
  void GiveOrders(Time now, ServerEffects* effects);
  void Assign(ServerEffects* effects);
  void AnswerPending(Time now, ServerEffects* effects);
  Assignment AssignmentFor(uint32_t server) const;
  uint64_t CarriedOut() const;
  bool NobodyIsLeft() const;
  RunRecord RecordNow(Time now) const;
  bool training() const { return record_.has_plan(); }
  void Lose(const std::string& why);

  const RunLeaderOptions options_;
  CoordinatorCore coordinator_;
  OrderBook orders_;
  absl::Status deposed_;

  // Servers and copies change in `record_`. Its coordinator part is filled in when it is stored.
  RunRecord stored_;
  RunRecord record_;
  int64_t revision_ = 0;
  std::shared_ptr<const RunPlan> plan_;
  bool plan_stored_ = false;
  struct Write {
    RunRecord record;
    std::shared_ptr<const RunPlan> plan;
    uint64_t changes = 0;  // number of the last change in it
    uint64_t last_order = 0;
    uint64_t checkpoint_done = 0;
    std::vector<uint64_t> heard;
  };
  bool write_under_way_ = false;
  Write writing_;
  Time write_again_{};
  std::string store_trouble_;
  uint64_t changes_ = 0;  // number of the last decided change
  uint64_t stored_changes_ = 0;
  uint64_t stored_order_ = 0;  // orders up to this one are stored
  // By shard: the CopyState.report that the record takes into account. A leading copy that hears of
  // a report waits for fewer copies. So it hears of the report only after the resulting record is
  // stored.
  std::vector<uint64_t> heard_, stored_heard_;

  std::map<uint32_t, Peer> peers_;  // by server
  std::vector<Progress> progress_;  // by shard
  std::vector<uint32_t> targets_;   // by shard: the server that must lead it
  std::set<uint32_t> spread_over_;  // the servers that `targets_` is made for
  bool gathered_ = false;           // all servers that training waits for have connected

  std::deque<Pending> pending_;
  std::vector<std::string> news_;
  uint64_t checkpoint_done_ = 0, stored_checkpoint_done_ = 0;
  bool sealing_ = false;
  uint64_t receipts_of_ = 0;  // checkpoint that `receipts_` belong to
  std::map<uint32_t, ShardReceipt> receipts_;
  struct Awaiting {
    uint64_t checkpoint = 0;
    uint64_t request = 0;
    Time deadline{};
  };
  std::vector<Awaiting> awaited_checkpoints_;
  std::vector<std::pair<CheckpointInfo, Time>>
      checkpoints_;  // taken since this server leads, and when
  std::string failed_checkpoint_;

  std::map<uint32_t, CoordinatorRecord::Pass> passes_;  // by worker; in a secured run
  std::vector<WorkerKey> expelled_;                     // workers whose Expel effects are due
  bool counts_changed_ = false;  // reports changed counts since the last write
  Time store_counts_{};          // earliest time for the next write of counts
  std::string waits_;            // last result of WaitsFor
  Time waits_since_{};
  bool told_waits_ = false;
  bool closing_ = false;
};

}  // namespace psgd
