// A whole server in production: its ServerCore, the thread that drives it, and what carries out the
// core's effects: copies, links to other servers, the run store and the writer of checkpoints.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "common/log.h"
#include "net/credentials.h"
#include "net/run_store.h"
#include "server/cluster/server_core.h"
#include "server/control/copy_set.h"
#include "server/control/peer_service.h"
#include "server/control/run_link.h"
#include "server/control/task_queue.h"
#include "server/durability/checkpoint_store.h"
#include "server/durability/failpoint.h"
#include "server/durability/shard_parts.h"

namespace psgd {

struct ServerLoopOptions {
  ServerCoreOptions core;  // `self.identity`, `run_id` and `on_disk` are filled in
  CopySetOptions copies;   // `callbacks` and `silence` are filled in
  std::string name;        // of this server, for people
  std::string checkpoint_dir;
  // Null: this server does not reach it, and cannot lead the run.
  std::shared_ptr<RunStore> store;
  std::string leader;  // where there is no store: the control plane of the server that leads
  std::shared_ptr<FailpointPlan> failpoint;  // for tests; null: there is none
  Log log = NullLog();
  // Called on the loop's thread; it must not call back.
  std::function<void(const std::string&)> on_news;
};

// Thread-safe.
class ServerLoop final : public PeerHandler {
 public:
  static absl::StatusOr<std::unique_ptr<ServerLoop>> Start(ServerLoopOptions options);
  ~ServerLoop() override;

  // Waits for the answer. UNAVAILABLE: another server leads the run, or this one ends.
  absl::StatusOr<ControlReply> Ask(ControlRequest request);
  // Its copies go elsewhere; then it ends.
  void Leave();
  // Waits until this server is not part of the run any more, at most so long. Null: it is still.
  std::optional<absl::Status> WaitEnded(Duration timeout);

  CallGuard& guard() override { return guard_; }
  absl::Status Serve(const ServerSays::Hello& hello, ServingStream* stream) override;
  absl::Status Follow(const FollowingSays::Hello& hello, FollowingStream* stream) override;

 private:
  using Event = std::function<void(Time now, ServerEffects* effects)>;
  struct Link {  // from another server
    ServingStream* stream = nullptr;
    TaskQueue* queue = nullptr;
  };

  explicit ServerLoop(ServerLoopOptions options);
  absl::Status Open();
  void Post(Event event);
  void Run();
  void CarryOut(ServerEffects effects);
  CopyCallbacks Callbacks();
  RunLinkEvents LinkEvents();
  void Heard(const LeaderSays& says);
  void HeardOf(uint64_t link, ServerSays says, ShardPartReader* parts);
  void Tell(uint64_t link, LeaderSays says);
  // To the server that leads the run, which may be this one.
  void TellOrder(uint32_t shard, uint64_t epoch, const CopyCore::OrderDone& done);
  void GiveCut(uint32_t shard);
  void SaveImage(uint32_t shard, std::shared_ptr<const ShardImage> image);
  void WritePart(uint32_t shard, std::shared_ptr<const ShardCut> cut);
  void Seal(const CheckpointManifest& manifest);
  void SaveIdentity(const std::string& run_id);

  // One for each effect.
  void Do(const effect::HaveCopy& have);
  void Do(const effect::DropCopy& drop);
  void Do(const effect::CheckpointDone& done);
  void Do(const effect::SendState& send);
  void Do(const effect::SendAssignment& send);
  void Do(const effect::SendOrder& send);
  void Do(const effect::Refuse& refuse);
  void Do(const effect::ReadStore& read);
  void Do(const effect::WriteStore& write);
  void Do(const effect::KeepLease& keep);
  void Do(const effect::Answer& answer);
  void Do(const effect::SealCheckpoint& seal);
  void Do(const effect::News& news);
  void Do(const effect::End& end);

  const ServerLoopOptions options_;
  const CheckpointStore checkpoints_;
  CallGuard guard_;
  std::unique_ptr<CopySet> copies_;
  std::unique_ptr<RunLink> run_link_;

  // The loop's thread's.
  std::unique_ptr<ServerCore> core_;
  uint64_t connection_ = 0;  // of run_link_, the latest
  std::string told_leader_;  // by another server, or in the beginning
  std::string run_id_;       // as the disk has it
  bool led_ = false;         // it led the run when it was looked at last
  bool keeping_ = false;     // a KeepLease is under way
  std::map<uint32_t, std::shared_ptr<const ShardCut>> cuts_;  // until their checkpoint is done

  // The disk's thread's: of the checkpoint that is being written.
  uint64_t writing_ = 0;
  std::map<uint32_t, ShardReceipt> written_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Event> events_;
  std::map<uint64_t, std::promise<absl::StatusOr<ControlReply>>> asked_;
  uint64_t next_request_ = 1;
  std::map<uint64_t, Link> links_;
  uint64_t next_link_ = 1;
  std::optional<absl::Status> ended_;
  bool stopping_ = false;

  // What may wait: the run store, the lease of this server in it, and the disk.
  TaskQueue store_, lease_, disk_;
  std::thread thread_;
};

}  // namespace psgd
