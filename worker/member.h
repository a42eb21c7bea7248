// A worker's membership of a run, shared by the trainer (train/trainer.h) and by programs
// (client/client.h). It joins the run, keeps the lease, connects to the shards, and leaves. It also
// does the tasks of WorkerCore that need neither a network nor data.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/status.h"
#include "net/credentials.h"
#include "net/transport.h"
#include "net/transport_security.h"
#include "proto/control.pb.h"
#include "worker/autotune.h"
#include "worker/control_client.h"
#include "worker/heartbeat.h"
#include "worker/session.h"
#include "worker/session_report.h"
#include "worker/update_encoder.h"
#include "worker/waited.h"
#include "worker/worker_core.h"

namespace psgd {

struct MemberOptions {
  std::string server;  // HOST:PORT of the control plane, or several with commas
  // As ControlClientOptions::find.
  std::function<absl::StatusOr<std::vector<std::string>>()> find;
  std::string name;
  bool replaces = false;  // an earlier process of this name
  std::string device = "unknown";
  uint32_t wanted = 0;  // the worker's number that it wants, plus one; 0: any
  std::shared_ptr<const Credentials> credentials;  // null: the server asks for none
  Duration connect_deadline = Milliseconds(60000);
  // Called while anything waits, on any thread. An error ends the wait. May be null.
  std::function<absl::Status()> interrupted;
  Log log = NullLog();
};

// What a step did and how long it took, for the worker's report.
struct StepReport {
  uint64_t samples = 0;
  uint64_t correct = 0;
  double loss_sum = 0;
  double seconds_data = 0;
  double seconds_compute = 0;
  double seconds_encode = 0;
  Waited waited = {};
  bool empty = false;  // the batch made no update
};

// What became of a residual that was pushed.
struct GivenResidual {
  bool any = false;
  double norm = 0;
  double norm_left = 0;  // of what was not acknowledged
  absl::Status pushed;
};

// Not thread-safe, unless a comment says otherwise.
class Member {
 public:
  struct Connection {
    UpdateEncoder* encoder = nullptr;  // REQUIRES: it outlives the member
    WorkerCore::AtEnd at_end = WorkerCore::AtEnd::kAsk;
    // Called when a shard has acknowledged a push, which was first sent at this time.
    std::function<void(const Message&, Time)> on_acknowledged = nullptr;
    // Called while the session waits, in addition to MemberOptions::interrupted.
    std::function<absl::Status()> interrupted = nullptr;
    // Returns the time at which `interrupted` fails at the latest, so no wait lasts longer. Null:
    // there is no such time.
    std::function<Time()> until = nullptr;
  };

  explicit Member(MemberOptions options);
  ~Member();

  // Joins the run.
  absl::Status Join();
  // Keeps the lease from now on.
  void KeepLease();
  // The coordinator knows the model, and has answered with its placement.
  void Registered(const RegisterReply& reply, uint64_t batches_per_epoch);
  // Connects to the shards. After that there are core() and session().
  absl::Status Connect(const Connection& connection);

  const MemberOptions& options() const { return options_; }
  const JoinReply& joined() const { return joined_; }
  const WorkerKey& key() const { return joined_.key(); }
  const Config& config() const { return config_; }
  // The run's config. Where codecs count in epochs, it counts in steps once Registered was called.
  Config* mutable_config() { return &config_; }
  const Placement& placement() const { return placement_; }
  ControlClient& control() { return control_; }
  Heartbeat& heartbeat() { return *heartbeat_; }
  const Heartbeat& heartbeat() const { return *heartbeat_; }
  bool keeps_lease() const { return heartbeat_ != nullptr; }
  WorkerCore& core() { return *core_; }
  const WorkerCore& core() const { return *core_; }
  Session& session() { return *session_; }
  Autotune& autotune() { return *autotune_; }

  // OK: waits may go on. Otherwise why they must end. Thread-safe.
  absl::Status Interrupted() const;
  // Ends all waits, now and later. Thread-safe.
  void Close() { closing_ = true; }

  // Tasks of WorkerCore. The owner tells the core when a task is done, and whether this worker was
  // asked to leave.
  absl::StatusOr<NextSegmentReply> AskSegment(const task::AskSegment& ask);
  // Leaves the run now if the codecs have no residual. Returns whether it leaves.
  absl::StatusOr<bool> LeaveWithoutResidual();
  absl::Status RestoreResiduals(const std::map<uint32_t, Bytes>& loaded);
  // The state of the codecs, for a checkpoint.
  absl::StatusOr<std::vector<std::pair<uint32_t, Bytes>>> SaveResiduals();
  absl::Status Report(const task::Report& report);
  // An error: the residual could not be read.
  absl::StatusOr<GivenResidual> GiveResidual(const task::GiveResidual& give);

  // Reports a step that has ended. `more` adds to it.
  void ReportStep(const StepReport& step, const std::function<void(WorkerReport*)>& more = nullptr);
  // The weight change of the local steps that were reported is pushed, so these steps count. If the
  // worker is gone before that, the run's counts leave them out.
  void KeepLocalSteps();
  // The norm of the residual that is left in the worker's codecs; nullopt: it is not known.
  std::optional<double> residual_norm_left() const { return residual_norm_left_; }
  void SetResidualNormLeft(double norm) { residual_norm_left_ = norm; }

  // Leaves the run. `status`: why the worker ends. If a server did not answer in time, the worker
  // sends it no further request, and so does not say good-bye.
  struct Farewell {
    std::string reason;
    bool failed = false;
    std::optional<Duration> limit = std::nullopt;  // of the call
  };
  void Leave(const absl::Status& status, const Farewell& farewell);

 private:
  absl::Status ReportResidual();
  absl::StatusOr<std::optional<MovedShards>> ShardsMoved() const;

  const MemberOptions options_;
  std::atomic<bool> closing_{false};
  ControlClient control_;
  const CurveKeys curve_;
  JoinReply joined_;
  Config config_;
  Placement placement_;
  uint64_t dense_bytes_ = 0;  // of all slices as fp32
  UpdateEncoder* encoder_ = nullptr;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<WorkerCore> core_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Autotune> autotune_;
  std::unique_ptr<Heartbeat> heartbeat_;
  SessionReport session_report_;
  Time residual_reported_{};
  bool reported_loss_ = false;  // the first step's
  WorkerReport unpushed_;       // of steps whose weight change is not pushed yet
  std::optional<double> residual_norm_left_;
};

}  // namespace psgd
