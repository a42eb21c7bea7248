// A whole server: the coordinator, its shards, the control service and the checkpoint writer.
// ps-server is little more than one of these and the pages that show it.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "common/bounded_queue.h"
#include "common/log.h"
#include "net/transport_security.h"
#include "proto/control.pb.h"
#include "server/call_guard.h"
#include "server/checkpoint_store.h"
#include "server/coordinator_core.h"
#include "server/coordinator_store.h"
#include "server/order_book.h"
#include "server/shard_server.h"
#include "server/socket_folder.h"

namespace psgd {

class ControlService;

struct ParameterServerOptions {
  Config config;                       // resolved and valid
  std::string host = "127.0.0.1";      // that control and data ports bind to
  std::string advertise;               // that workers are told to connect to; empty: host
  int control_port = 0;                // 0: any free one
  // Null: whoever reaches the ports may do everything, and whoever listens in can read.
  std::shared_ptr<const Credentials> credentials;
  std::string run_dir;                 // for people
  std::string checkpoint_dir;          // and of the journal, where there is one
  // Go on where the journal ends, at the addresses that were used then; they are not looked at here.
  bool recover = false;
  // To go on from: the run's newest sound checkpoint.
  std::shared_ptr<const LoadedCheckpoint> resume;
  uint64_t last_checkpoint = 0;  // ids up to this one are taken
  std::shared_ptr<const GivenWeights> given;  // of a model that comes from a file
  Log log = NullLog();
  // Called for everything that happened, from any thread; they must not call back.
  std::function<void(const std::string&)> on_news;
  std::function<void(const EvalResult&)> on_evaluation;
  std::function<void(const CodecChoices&)> on_choices;
  std::function<void(const CheckpointInfo&)> on_checkpoint;
  // Of workers and shards, in the first trace_steps steps.
  std::function<void(std::vector<TraceSpan>)> on_spans;
  uint64_t trace_steps = 0;
};

// Thread-safe after Start.
class ParameterServer {
 public:
  static absl::StatusOr<std::unique_ptr<ParameterServer>> Start(ParameterServerOptions options);
  ~ParameterServer();

  const std::string& control_address() const { return control_address_; }
  CallGuard& guard() { return guard_; }

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
    size_t seen = 0;
  };
  struct ToWrite {
    uint32_t shard = 0;
    std::variant<ShardCut, ShardImage> what;
  };

  explicit ParameterServer(ParameterServerOptions options);
  absl::Status StartShards();
  absl::Status StartTransport();
  // REQUIRES: the transport is there.
  absl::StatusOr<std::unique_ptr<DurableShard>> MakeShard(uint32_t shard,
                                                          std::vector<std::string>* notes) const;
  absl::Status Serve(uint32_t shard, std::unique_ptr<DurableShard> durable);

  // The journal (parameter_server_recovery.cc).
  static absl::StatusOr<std::unique_ptr<ParameterServer>> OpenJournal(
      ParameterServerOptions options);
  absl::Status CreateJournal();
  absl::Status RecoverShards();
  static std::string JournalFolder(const ParameterServerOptions& options, const std::string& part);
  bool HasJournal() const;
  // What is written down waits for the disk.
  bool SyncsJournal() const;
  // Writes down what the next answers depend on, where it changed. REQUIRES: mutex_ held.
  absl::Status SaveRecord(bool wait_for_disk = true);
  CoordinatorRecord Record() const;
  void SavePasses(CoordinatorRecord* record) const;
  void RestorePasses(const CoordinatorRecord& record);

  // Makes the checkpoint's weights available at once.
  absl::Status Resume();
  std::string ShardAddress(uint32_t shard) const;
  // Of the shards, as workers are told them.
  std::vector<std::string> Endpoints() const;
  // Carries out what the core decided, once that is written down. REQUIRES: mutex_ held.
  absl::Status Apply(Effects effects);
  absl::Status CarryOutOrders();
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
  std::string saved_record_;
  bool stopping_ = false;

  const CheckpointStore store_;
  std::optional<SocketFolder> sockets_;  // of transport ipc
  std::unique_ptr<Transport> transport_;
  std::vector<std::unique_ptr<ShardServer>> shards_;
  BoundedQueue<ToWrite> to_write_;
  BoundedQueue<QuarantinedWorker> quarantined_;
  WrittenShards written_;  // the writer thread's
  std::thread writer_;
  std::thread ticker_;
  std::unique_ptr<ControlService> service_;
};

}  // namespace psgd
