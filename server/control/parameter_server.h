// A whole server: the coordinator, its shards, the control service and the checkpoint writer.
// ps-server is little more than one of these and the pages that show it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "common/bounded_queue.h"
#include "common/log.h"
#include "net/chain_store.h"
#include "net/transport_security.h"
#include "proto/control.pb.h"
#include "server/control/call_guard.h"
#include "server/control/chain_keeper.h"
#include "server/control/followed_run.h"
#include "server/control/follower_stream.h"
#include "server/control/host_stream.h"
#include "server/control/remote_host.h"
#include "server/control/shard_moves.h"
#include "server/control/shard_set.h"
#include "server/coordinator/coordinator_core.h"
#include "server/coordinator/order_book.h"
#include "server/durability/checkpoint_store.h"
#include "server/durability/coordinator_store.h"
#include "server/durability/failpoint.h"

namespace psgd {

class ControlService;

struct ParameterServerOptions {
  Config config;                   // resolved and valid
  std::string host = "127.0.0.1";  // that control and data ports bind to
  std::string advertise;           // that workers are told to connect to; empty: host
  int control_port = 0;            // 0: any free one
  // Null: whoever reaches the ports may do everything, and whoever listens in can read.
  std::shared_ptr<const Credentials> credentials;
  std::string run_dir;  // for people
  std::string checkpoint_dir;
  std::string journal_dir;  // where there is one
  // Go on where the journal ends, at the addresses that were used then; they are not looked at
  // here.
  bool recover = false;
  bool recover_here = false;           // but at `host` and `control_port`
  uint32_t replica = 1;                // of a run with followers
  std::shared_ptr<ChainStore> chains;  // likewise; null: the servers' own records
  // To go on from: the run's newest sound checkpoint.
  std::shared_ptr<const LoadedCheckpoint> resume;
  uint64_t last_checkpoint = 0;               // ids up to this one are taken
  std::shared_ptr<const GivenWeights> given;  // of a model that comes from a file
  std::shared_ptr<FailpointPlan> failpoint;   // for tests; null: there is none
  Log log = NullLog();
  // Called for everything that happened, from any thread; they must not call back.
  std::function<void(const std::string&)> on_news;
  std::function<void(const EvalResult&)> on_evaluation;
  std::function<void(const CodecChoices&)> on_choices;
  std::function<void(const CheckpointInfo&)> on_checkpoint;
  // Of workers and shards, in the first trace_steps steps. `server`: that has the shards.
  std::function<void(uint32_t server, std::vector<TraceSpan>)> on_spans;
  uint64_t trace_steps = 0;
};

// Thread-safe after Start.
class ParameterServer {
 public:
  static absl::StatusOr<std::unique_ptr<ParameterServer>> Start(ParameterServerOptions options);
  // Leads a run from now on that was followed so far.
  static absl::StatusOr<std::unique_ptr<ParameterServer>> TakeOver(ParameterServerOptions options,
                                                                   FollowedRun followed);
  ~ParameterServer();

  const std::string& control_address() const { return control_address_; }
  CallGuard& guard() { return guard_; }
  bool HasJournal() const;
  // Of the run's samples: it was resumed after them.
  uint64_t samples_before() const;

  // The control plane; ControlService and tests call these.
  absl::StatusOr<JoinReply> Join(const JoinRequest& request);
  absl::StatusOr<RegisterReply> Register(const RegisterRequest& request);
  absl::StatusOr<NextSegmentReply> NextSegment(const NextSegmentRequest& request);
  absl::StatusOr<EvaluatedReply> Evaluated(const EvaluatedRequest& request);
  absl::StatusOr<HeartbeatReply> Heartbeat(const HeartbeatRequest& request);
  absl::StatusOr<LeaveReply> Leave(const LeaveRequest& request);
  absl::StatusOr<StatusReply> Status(const StatusRequest& request);
  // Waits until the checkpoint is written.
  absl::StatusOr<CheckpointReply> Checkpoint(const CheckpointRequest& request);
  absl::StatusOr<DrainReply> Drain(const DrainRequest& request);
  absl::StatusOr<SetHyperReply> SetHyper(const SetHyperRequest& request);
  absl::Status Weights(const std::function<absl::Status(const WeightsChunk&)>& send);

  // Followers (parameter_server_followers.cc).
  // Sends one log to a follower until it is gone.
  absl::Status Follow(const FollowerSays::Ask& ask, FollowerStream* stream);
  absl::StatusOr<DropFollowerReply> DropFollower(const DropFollowerRequest& request);
  Chain chain() const;
  // Why this server leads the run no more; empty: it does.
  std::string deposed() const;
  // The run is over: nobody may lead it any more.
  absl::Status EndChain();

  // Other servers that hold shards (parameter_server_hosts.cc).
  // Leads such a server until it is gone.
  absl::Status Host(const HostSays::Hello& hello, HostStream* stream);
  absl::StatusOr<RebalanceReply> Rebalance(const RebalanceRequest& request);
  // A server lost shards that nobody else has; the run's status says which.
  bool lost() const;

  // The run is over and every worker was told so, or drained.
  bool Finished() const;
  // Waits for that, at most so long.
  bool WaitFinished(Duration timeout);

 private:
  // Receipts of the checkpoint that is being written.
  struct WrittenShards {
    uint64_t checkpoint = 0;
    std::vector<ShardReceipt> receipts;
    absl::Status failed;
    std::set<uint32_t> shards;
  };
  struct ToWrite {
    uint32_t shard = 0;
    std::variant<ShardCut, ShardImage> what;
  };

  explicit ParameterServer(ParameterServerOptions options);
  // The shards are there: answers from now on.
  absl::Status Open();
  absl::Status StartShards();
  absl::Status OpenShardSet();
  // Of all, wherever they are.
  std::vector<std::shared_ptr<ShardHandle>> Shards() const;

  // The journal (parameter_server_recovery.cc).
  static absl::StatusOr<std::unique_ptr<ParameterServer>> OpenJournal(
      ParameterServerOptions options);
  absl::Status CreateJournal();
  // Goes on from a record.
  static absl::StatusOr<std::unique_ptr<ParameterServer>> FromRecord(
      ParameterServerOptions options, CoordinatorRecord record,
      std::unique_ptr<CoordinatorStore> store, std::shared_ptr<FollowerSet> followers,
      LedChain led);
  absl::Status RecoverShards();
  // A shard that goes on; the checkpoint under way may still want a part of it.
  absl::Status ServeAgain(uint32_t shard, std::unique_ptr<DurableShard> durable);
  absl::Status WentOn(const std::string& news);
  // What is written down waits for the disk.
  bool SyncsJournal() const;
  // Writes down what the next answers depend on, where it changed. REQUIRES: mutex_ held.
  absl::Status SaveRecord(bool wait_for_disk = true);
  CoordinatorRecord Record() const;
  // What the journals here have, for the next start to miss what is lost of one.
  void SaveEntries(CoordinatorRecord* record) const;
  // Followers. REQUIRES: mutex_ held.
  bool WaitsForFollowers(std::string* reason) const;
  // Null: the one before is still as it was.
  absl::Status ShipRecord(const CoordinatorRecord* record, bool wait);
  void MakeKeeper();
  // A server that died may lead again if nobody else does.
  static absl::StatusOr<LedChain> RecoverLead(ParameterServerOptions& options, const Chain& chain,
                                              const std::string& address);
  static absl::StatusOr<LedChain> RecoverLeadByOrder(const ParameterServerOptions& options,
                                                     const Chain& chain);
  // For every answer to a worker that tells of the chain: who leads, and who may before it is told
  // again. It forgets whom that does not name.
  Chain ChainFor(const WorkerKey& worker);
  // It said that with this report; it has what it was told with the answer to the one before.
  void Introduce(const WorkerKey& worker, uint64_t report, const Chain& chain);
  void ForgetIntroductions();
  bool EveryWorkerKnows(const std::string& address) const;
  // REQUIRES of the following: mutex_ not held.
  void ChainLoop();
  void KeepChain();
  void TakeInFollowers();
  void DropGoneFollowers();
  // Whether a follower that does not answer leads by now.
  void LookForAnotherLeader();
  void SetDeposed(std::string why);
  void SetChainTrouble(const absl::Status& status);
  // Tells it once all that are in the chain have written how it is now.
  absl::Status ChainChanged(std::string news);
  absl::Status WriteDownChain();
  absl::StatusOr<std::shared_ptr<FollowerLog>> BeginCoordinatorLog(const Chain::Member& follower,
                                                                   FollowerStream* stream);
  absl::StatusOr<std::shared_ptr<FollowerLog>> BeginShardLog(const FollowerSays::Ask& ask,
                                                             FollowerStream* stream);
  // Other servers. REQUIRES: mutex_ held, but for those that say otherwise.
  void RestoreOwners();
  void SaveOwners(CoordinatorRecord* record) const;
  // Of a shard that is made from now on: ShardOptions::starts.
  uint32_t NextLife();
  // Null: nobody asks for them. May be called at any time.
  std::function<void(std::vector<TraceSpan>)> SpansOf(uint32_t server);
  std::shared_ptr<RemoteHost> HostOf(uint32_t server);
  // The number that it has or gets.
  absl::StatusOr<uint32_t> CheckHost(const HostSays::Hello& hello);
  // A server came that has these shards. REQUIRES: mutex_ not held.
  absl::Status TakeBack(uint32_t server, const std::shared_ptr<RemoteHost>& host,
                        const HostSays::Ready& ready);
  // The run cannot go on.
  void Lose(const std::string& why);
  bool WaitsForServers(std::string* reason);
  // Decides anew where shards are to be.
  void Spread();
  void MoveLoop();
  absl::Status WriteDownMove(const ShardMoves::Step& step);
  void Tell(const ShardMoves::Ended& ended);
  void SetShard(uint32_t shard, std::shared_ptr<ShardHandle> handle);
  // REQUIRES of these: mutex_ not held.
  absl::Status CarryOut(const ShardMoves::Step& step);
  absl::StatusOr<std::shared_ptr<ShardHandle>> Place(uint32_t shard, uint32_t server,
                                                     const ShardImage& image);
  void DropFrom(uint32_t shard, uint32_t server);
  void EndHosts();
  void SavePasses(CoordinatorRecord* record) const;
  void RestorePasses(const CoordinatorRecord& record);

  // Makes the checkpoint's weights available at once.
  absl::Status Resume();
  // Of the shards, as workers are told them.
  std::vector<std::string> Endpoints() const;
  // Carries out what the core decided, once that is written down. REQUIRES: mutex_ held.
  absl::Status Apply(Effects effects);
  // People, and the log.
  void Tell(const std::string& news) const;
  absl::Status CarryOutOrders();
  // Once for each, before the shards.
  void Begin(OrderBook::Order* order);
  void TickLoop();
  void WriteLoop();
  void WriteImage(uint32_t shard, const ShardImage& image);
  absl::Status WriteCut(uint32_t shard, ShardCut cut);
  absl::Status Seal(uint64_t id);
  bool AllWorkersGone() const;
  // parameter_server_security.cc.
  std::shared_ptr<const TransportSecurity> DataSecurity() const;
  absl::Status CheckJoin(const JoinRequest& request) const;
  void HandOutPasses(const JoinRequest& request, JoinReply* reply);

  const ParameterServerOptions options_;
  const std::shared_ptr<AllowList> members_;  // of a secured run
  // Likewise. A journal keeps them, in a folder that nobody else may enter, so that workers find
  // again whom they know.
  CurveKeys curve_;
  std::map<uint32_t, CoordinatorRecord::Pass> passes_;  // by worker
  CallGuard guard_;
  std::string control_address_;

  mutable std::mutex mutex_;  // guards what follows, to stopping_
  std::condition_variable changed_;
  CoordinatorCore core_;
  std::vector<std::pair<CheckpointInfo, Time>> checkpoints_;  // of this process, and when
  std::map<uint64_t, absl::Status> failed_checkpoints_;
  OrderBook orders_;
  std::unique_ptr<CoordinatorStore> record_store_;  // null: there is no journal
  std::optional<CoordinatorRecord> recovered_;      // what it goes on from
  uint64_t recovered_entries_ = 0;                  // of all shards
  std::string saved_record_;
  bool saved_synced_ = false;  // it is on the disk
  bool told_waiting_ = false;  // for servers or the disk, since something was carried out
  bool gathered_ = false;      // it has or had as many followers as it wants
  uint32_t next_replica_ = 2;
  // The servers that a worker was told of, and those that it knows since it reported again.
  struct Introduced {
    uint64_t report = 0;
    std::set<std::string> told, known;  // addresses
  };
  std::map<std::pair<uint32_t, uint32_t>, Introduced> introduced_;  // by worker and incarnation
  uint64_t shipped_records_ = 0;
  std::shared_ptr<const Placement>
      shipped_plan_;  // that all connected followers have; null: some may not
  std::string deposed_;
  std::string chain_trouble_;
  std::vector<std::string> chain_news_;  // of changes that some follower may not have written yet
  static constexpr uint32_t kThisServer = ShardMoves::kCoordinator;
  ShardMoves moves_{std::vector<uint32_t>()};
  std::map<uint32_t, std::shared_ptr<RemoteHost>> hosts_;  // by number
  uint64_t run_key_ = 0;
  uint32_t next_server_ = kThisServer + 1;
  uint32_t lives_ = 0;  // of shards that were moved
  bool lost_ = false;
  bool gathered_servers_ = false;  // it has or had as many servers as it wants
  bool stopping_ = false;

  std::shared_ptr<FollowerSet> followers_;  // null: the run has none
  std::unique_ptr<ChainKeeper> keeper_;     // likewise
  std::thread chain_thread_;
  const CheckpointStore store_;
  std::unique_ptr<ShardSet> local_;
  mutable std::mutex shards_mutex_;  // guards shards_
  std::vector<std::shared_ptr<ShardHandle>> shards_;
  BoundedQueue<ToWrite> to_write_;
  BoundedQueue<QuarantinedWorker> quarantined_;
  WrittenShards written_;  // the writer thread's
  std::thread writer_;
  std::thread ticker_;
  // The mover thread's, of the move that is under way.
  struct MovingShard {
    Time start{}, stood_still{}, went_on{};
    ShardImage image;
    uint64_t followed = 0;  // the last step that the new one went
    ShardMoves::Followed round;
    std::shared_ptr<ShardHandle> placed;
  };
  MovingShard moving_;
  std::thread mover_;
  std::atomic<bool> server_leaves_{false};  // the mover is to look
  std::unique_ptr<ControlService> service_;
};

}  // namespace psgd
