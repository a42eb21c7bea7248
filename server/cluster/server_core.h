// A server: it holds its assigned copies, and leads the run if the run store says so. This is a
// state machine without IO, threads or clock. Its inputs are requests, messages of other servers,
// results of the disk and the store, and the time. Its outputs are effects, which a shell carries
// out in order (server/control). The simulator is another shell.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "server/cluster/copy_holder.h"
#include "server/cluster/run_leader.h"

namespace psgd {

struct ServerCoreOptions {
  RunServer self;              // `server` 0: this server has no number yet
  std::string run_id;          // the run of its run directory
  std::set<uint32_t> on_disk;  // shards with copies in its run directory
  bool begins = false;         // this server begins a new run
  bool was_part = false;       // it was part of the run before its restart
  // This server reaches the run store, so it may lead the run. Otherwise it knows only the address
  // of the run's leader.
  bool may_lead = false;
  RunLeaderOptions leader;  // for the case that it leads
};

// Not thread-safe.
class ServerCore {
 public:
  explicit ServerCore(ServerCoreOptions options);

  void Start(Time now, ServerEffects* effects);

  // Answers of the run store. `plan`: the plan of the record; null: it has none.
  void OnStoreRead(const absl::StatusOr<RunStore::Held>& held, const RunPlan* plan, Time now,
                   ServerEffects* effects);
  void OnStoreWritten(uint64_t number, const absl::StatusOr<int64_t>& revision, Time now,
                      ServerEffects* effects);
  void OnLeaseKept(uint64_t epoch, const absl::Status& kept, ServerEffects* effects);

  // The link to the run's leader is there.
  void OnConnected(Time now, ServerEffects* effects);
  // The run's leader says which copies this server has.
  void OnAssignment(const Assignment& assignment, Time now, ServerEffects* effects);
  // The run's leader refuses this server, and says why.
  void OnRefused(const absl::Status& why, ServerEffects* effects);

  // Reports of copies on this server. The run's leader hears of all of them at once.
  void OnCopies(std::span<const CopyState> copies, Time now, ServerEffects* effects);
  void OnDropped(uint32_t shard, Time now, ServerEffects* effects);
  // The leading copy here has cut its part of the checkpoint. Each new leader of the run gets the
  // part again until the checkpoint is done. False: the checkpoint does not need this part.
  bool OnCut(uint32_t shard, uint64_t checkpoint, ServerEffects* effects);

  // Inputs for a server that leads the run; RunLeader explains them.
  void OnState(uint64_t link, const ServerState& state, Time now, ServerEffects* effects);
  void OnLinkGone(uint64_t link, Time now, ServerEffects* effects);
  void OnOrderDone(uint32_t shard, uint64_t epoch, uint64_t number, const absl::Status& status,
                   Time now, ServerEffects* effects);
  // Another server's part of a checkpoint has come. False: the checkpoint does not need this part.
  bool OnPartCame(uint64_t checkpoint, uint32_t shard, ServerEffects* effects);
  // What was written under an earlier leadership of this server does not count. True: the part is
  // written, and its bytes are needed no more.
  bool OnPart(const effect::WritePart& part, const absl::StatusOr<ShardReceipt>& receipt, Time now,
              ServerEffects* effects);
  void OnSealed(uint64_t run_epoch, uint64_t checkpoint,
                const absl::StatusOr<SealedCheckpoint>& sealed, Time now, ServerEffects* effects);
  void OnQuarantined(const QuarantinedWorker& worker, Time now, ServerEffects* effects);
  void OnRequest(uint64_t request, const ControlRequest& asked, Time now, ServerEffects* effects);

  // Call this at least ten times per RunLeaderOptions.patience.
  void Tick(Time now, ServerEffects* effects);
  // This server's copies move to other servers; then it ends.
  void Leave() { holder_.Leave(); }
  // REQUIRES: this server leads the run, and the run is trained.
  void Close(Time now, ServerEffects* effects);

  // Null: another server, or nobody, leads the run.
  const RunLeader* leader() const { return leader_.get(); }
  const CopyHolder& holder() const { return holder_; }
  // Control-plane address of the run's leader, as far as this server knows.
  const std::string& leader_address() const { return leader_address_; }

 private:
  // Delivers this server's messages to itself, and stops leading if the leader is deposed.
  void Settle(Time now, ServerEffects* effects);
  // The checkpoint that this server can begin training from; 0: none.
  uint64_t ResumesFrom() const;
  bool LeadsUnder(uint64_t run_epoch) const {
    return leader_ != nullptr && leader_->stored().epoch() == run_epoch;
  }
  void Lead(int64_t revision, RunRecord record, const RunPlan* plan, Time now,
            ServerEffects* effects);
  void Step(absl::Status why, ServerEffects* effects);
  void GiveCut(uint32_t shard, uint64_t checkpoint, ServerEffects* effects);
  // Tells people once what is wrong with the run store.
  void TellTrouble(const absl::Status& status, ServerEffects* effects);

  const ServerCoreOptions options_;
  CopyHolder holder_;
  bool begins_;    // this server begins the run, which is not stored yet
  bool was_part_;  // this server was ever part of the run
  std::unique_ptr<RunLeader> leader_;
  std::string leader_address_;
  Time heard_{};             // when the run's leader was last heard
  bool store_busy_ = false;  // a read, or a write of `taking_over_`, is under way
  uint64_t writes_ = 0;      // number of the last write; answers to earlier writes are ignored
  Time read_again_{};
  Time keep_again_{};
  std::optional<Time> keeps_since_;  // a KeepLease is under way
  bool ended_ = false;
  std::string store_trouble_;
  RunRecord taking_over_;  // the record with which it would lead
  uint32_t replaced_ = 0;  // see CopyAssignerOptions
  std::shared_ptr<const RunPlan> plan_;
};

}  // namespace psgd
