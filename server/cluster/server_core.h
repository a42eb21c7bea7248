// A server: it holds the copies that it is assigned, and leads the run if the run store says so. A
// state machine without IO, threads or clock. Requests, messages of other servers, what a disk or
// the store did and the time go in; effects come out, which a shell carries out in order
// (server/control). The simulator is another shell.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "server/cluster/copy_holder.h"
#include "server/cluster/run_leader.h"

namespace psgd {

struct ServerCoreOptions {
  RunServer self;              // `server` 0: it has no number yet
  std::string run_id;          // that its run directory belongs to; empty: it is empty
  std::set<uint32_t> on_disk;  // shards of which its run directory has copies
  bool begins = false;         // a new run, on this server
  bool was_part = false;       // of the run, before it was started again
  // It reaches the run store, so that it may lead the run. Else it knows only the address of the
  // server that does.
  bool may_lead = false;
  RunLeaderOptions leader;  // as it would lead
};

// Not thread-safe.
class ServerCore {
 public:
  explicit ServerCore(ServerCoreOptions options);

  void Start(Time now, ServerEffects* effects);

  // The run store. `plan`: of the record; null: it has none.
  void OnStoreRead(const absl::StatusOr<RunStore::Held>& held, const RunPlan* plan, Time now,
                   ServerEffects* effects);
  void OnStoreWritten(uint64_t number, const absl::StatusOr<int64_t>& revision, Time now,
                      ServerEffects* effects);
  void OnLeaseKept(uint64_t epoch, const absl::Status& kept, Time now, ServerEffects* effects);

  // The server that leads the run: its link is there, what it says, and why it refuses this server.
  void OnConnected(Time now, ServerEffects* effects);
  void OnAssignment(const Assignment& assignment, Time now, ServerEffects* effects);
  void OnRefused(const absl::Status& why, ServerEffects* effects);

  // Copies on this server.
  void OnCopy(const CopyState& copy, Time now, ServerEffects* effects);
  void OnDropped(uint32_t shard, Time now, ServerEffects* effects);

  // Where this server leads the run; RunLeader says what they mean.
  void OnState(uint64_t link, const ServerState& state, Time now, ServerEffects* effects);
  void OnLinkGone(uint64_t link, Time now, ServerEffects* effects);
  void OnOrderDone(uint32_t shard, uint64_t epoch, uint64_t number, const absl::Status& status,
                   Time now, ServerEffects* effects);
  void OnPart(uint64_t checkpoint, uint32_t shard, const absl::StatusOr<ShardReceipt>& receipt,
              Time now, ServerEffects* effects);
  void OnSealed(uint64_t checkpoint, const absl::StatusOr<CheckpointInfo>& info, Time now,
                ServerEffects* effects);
  void OnQuarantined(const WorkerKey& worker, const std::string& why, Time now,
                     ServerEffects* effects);
  void OnRequest(uint64_t request, const ControlRequest& asked, Time now, ServerEffects* effects);

  // To be called at least ten times in RunLeaderOptions.patience.
  void Tick(Time now, ServerEffects* effects);
  // Its copies are to go elsewhere; then it ends.
  void Leave() { holder_.Leave(); }
  // REQUIRES: it leads the run, which is trained.
  void Close(Time now, ServerEffects* effects);

  // Null: another server leads the run, or nobody.
  const RunLeader* leader() const { return leader_.get(); }
  const CopyHolder& holder() const { return holder_; }
  // Of the control plane of the server that leads the run, as far as this one knows.
  const std::string& leader_address() const { return leader_address_; }

 private:
  // Has what this server says to itself delivered, and ends what is over.
  void Settle(Time now, ServerEffects* effects);
  void Lead(int64_t revision, RunRecord record, const RunPlan* plan, Time now,
            ServerEffects* effects);
  void Step(absl::Status why, ServerEffects* effects);

  const ServerCoreOptions options_;
  CopyHolder holder_;
  bool begins_;    // the run, which is not stored yet
  bool was_part_;  // of the run, at any time
  std::unique_ptr<RunLeader> leader_;
  std::string leader_address_;
  Time heard_{};             // of the server that leads the run
  bool store_busy_ = false;  // reading, or writing the record with which it would lead
  uint64_t writes_ = 0;      // their numbers; answers to those before the latest are too late
  Time read_again_{};
  Time keep_again_{};
  bool ended_ = false;
  RunRecord taking_over_;  // the record with which it would lead
  std::shared_ptr<const RunPlan> plan_;
};

}  // namespace psgd
