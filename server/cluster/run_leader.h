// What the server that leads the run does beside holding copies: it answers workers and people,
// orders the shards, and settles which server holds which copy and leads which shard. A state
// machine without IO, threads or clock.
//
// Nothing that it decides is told to anybody before the run store has it: another server that takes
// the lead goes on from what is stored, so nobody ever knows of a decision that could be taken
// back. Decisions that come while the store is written to are stored together next.
//
// Before training begins there are no weights, and nothing to lose: joins of workers are not stored
// until then.
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
  uint32_t server = 0;  // this one
  size_t copies = 1;    // of each shard
  size_t servers = 1;   // that training waits for in the beginning
  Duration patience{};  // with a server that is silent, before its shards are led by others
  // Of a secured run: what its data ports are known by, and where tokens of workers come from.
  std::string curve_key;
  std::function<std::string()> draw_token;  // null: the run is not secured
  uint64_t trace_steps = 0;                 // of workers, that they tell the spans of
};

// The record of a run that begins on this server, which leads all of its shards.
RunRecord FirstRecord(const std::string& run_id, const RunServer& self, uint32_t shards);
// The same run under the next epoch, led by this server.
RunRecord TakenOver(RunRecord record, const RunServer& self);

// Not thread-safe.
class RunLeader {
 public:
  // Leads the run whose record was stored at `revision`. `plan`: null if training has not begun.
  static absl::StatusOr<std::unique_ptr<RunLeader>> Make(RunLeaderOptions options, int64_t revision,
                                                         RunRecord record, const RunPlan* plan,
                                                         Time now);

  // A server is there, on that link; or the link is broken.
  void OnState(uint64_t link, const ServerState& state, Time now, ServerEffects* effects);
  void OnLinkGone(uint64_t link);
  // What became of effects.
  void OnStoreWritten(const absl::StatusOr<int64_t>& revision, Time now, ServerEffects* effects);
  void OnOrderDone(uint32_t shard, uint64_t epoch, uint64_t number, const absl::Status& status,
                   Time now, ServerEffects* effects);
  void OnPart(uint64_t checkpoint, uint32_t shard, const absl::StatusOr<ShardReceipt>& receipt,
              Time now, ServerEffects* effects);
  void OnSealed(uint64_t checkpoint, const absl::StatusOr<CheckpointInfo>& info, Time now,
                ServerEffects* effects);
  void OnQuarantined(const WorkerKey& worker, const std::string& why, Time now,
                     ServerEffects* effects);
  // Answer follows, perhaps much later.
  void OnRequest(uint64_t request, const ControlRequest& asked, Time now, ServerEffects* effects);
  // To be called at least ten times in `patience`.
  void Tick(Time now, ServerEffects* effects);
  // What the run leaves behind is saved: no server is needed any more. REQUIRES: trained().
  void Close(Time now, ServerEffects* effects);

  // Why it leads no more: another server does, or the run cannot go on. OK: it leads.
  const absl::Status& deposed() const { return deposed_; }
  const CoordinatorCore& coordinator() const { return coordinator_; }
  const RunRecord& stored() const { return stored_; }
  const std::map<uint32_t, CoordinatorRecord::Pass>& passes() const { return passes_; }
  int64_t revision() const { return revision_; }
  // To the other servers that are here.
  std::vector<uint64_t> links() const;
  // What the run waits for, in words; empty: for nothing.
  std::string WaitsFor() const;
  // Training is over, every shard knows, and no worker is left.
  bool trained() const;
  // So is the run, and it is stored.
  bool closed() const { return stored_.over(); }

 private:
  struct Peer {
    uint64_t link = 0;  // 0: it is away
    Time heard{};
    uint64_t came = 0;  // the change of the record by which it came
    ServerState state;
    // By shard whose copy on it was read from the disk, and leads all the same: from which epoch
    // on.
    std::map<uint32_t, uint64_t> restarted;
    std::string assigned;  // Assignment that it was sent last on this link
  };
  struct Progress {      // of a shard with the orders
    uint64_t epoch = 0;  // that it was given them under
    uint64_t link = 0;   // likewise
    uint64_t sent = 0;
    uint64_t done = 0;
    Time retry{};
  };
  struct Pending {
    uint64_t request = 0;
    absl::StatusOr<ControlReply> reply;
    uint64_t change = 0;  // that has to be stored
    uint64_t order = 0;   // that has to be carried out
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
  // A worker is out: it may say nothing any more.
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
  // Its copy; null: it is away, or has none.
  const CopyState* Find(uint32_t server, uint32_t shard) const;
  bool IsHere(uint32_t server) const;
  bool IsGone(uint32_t server, Time now) const;
  // So are its copies: it keeps no journal, and is gone for longer than anybody is waited for.
  bool IsLost(uint32_t server, Time now) const;
  bool GoesOn(uint32_t server, uint32_t shard) const;
  bool MayLead(uint32_t server, uint32_t shard) const;
  static void Away(Peer* peer);
  void SettleLeader(uint32_t shard, Time now);
  void Promote(uint32_t shard, uint32_t server);
  void SettleFollowers(uint32_t shard, Time now);
  // The copy that is to lead the shard says that it does.
  bool Leads(uint32_t shard) const;
  void HearReports(uint32_t shard);
  void Balance();
  std::set<uint32_t> Present() const;
  std::vector<std::string> Endpoints() const;
  bool EndpointsKnown() const;

  // What is to be told.
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

  // The record. Servers and copies change in `record_`; its coordinator is filled in when it is
  // stored.
  RunRecord stored_;
  RunRecord record_;
  int64_t revision_ = 0;
  std::shared_ptr<const RunPlan> plan_;
  bool plan_stored_ = false;
  struct Write {
    RunRecord record;
    std::shared_ptr<const RunPlan> plan;
    uint64_t changes = 0;  // of those decided, up to this one
    uint64_t last_order = 0;
    uint64_t checkpoint_done = 0;
    std::vector<uint64_t> heard;
  };
  bool write_under_way_ = false;
  Write writing_;
  Time write_again_{};
  std::string store_trouble_;
  uint64_t changes_ = 0;  // decided so far
  uint64_t stored_changes_ = 0;
  uint64_t stored_order_ = 0;  // orders up to this one are stored
  // By shard: the CopyState.report that the record takes into account. A leading copy that hears of
  // a report waits for fewer copies, so it must not before the record that follows from the report
  // is stored.
  std::vector<uint64_t> heard_, stored_heard_;

  std::map<uint32_t, Peer> peers_;  // by server
  std::vector<Progress> progress_;  // by shard
  std::vector<uint32_t> targets_;   // by shard: who is to lead it
  std::set<uint32_t> spread_over_;  // the servers that `targets_` is made for
  bool gathered_ = false;  // the servers that training waits for in the beginning were here

  std::deque<Pending> pending_;
  std::vector<std::string> news_;
  uint64_t checkpoint_done_ = 0, stored_checkpoint_done_ = 0;
  bool sealing_ = false;
  uint64_t receipts_of_ = 0;  // a checkpoint
  std::map<uint32_t, ShardReceipt> receipts_;
  struct Awaiting {
    uint64_t checkpoint = 0;
    uint64_t request = 0;
    Time deadline{};
  };
  std::vector<Awaiting> awaited_checkpoints_;
  std::vector<std::pair<CheckpointInfo, Time>> checkpoints_;  // since it leads, and when
  std::string failed_checkpoint_;

  std::map<uint32_t, CoordinatorRecord::Pass> passes_;  // by worker; of a secured run
  std::vector<WorkerKey> expelled_;                     // that effects are to say
  bool counts_changed_ = false;  // by reports of workers, since it was stored
  Time store_counts_{};          // not before that
  std::string waits_;            // WaitsFor, as it was last
  Time waits_since_{};
  bool told_waits_ = false;
  bool closing_ = false;
};

}  // namespace psgd
