// A program as a worker of a run: what libpsgd's calls do. As train/trainer.h it is a shell around
// WorkerCore, but the program says when a step begins and ends, and has the data and the network.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/kept_state.h"
#include "client/pushes.h"
#include "client/tensors.h"
#include "common/bytes.h"
#include "common/clock.h"
#include "common/freed_memory.h"
#include "common/status.h"
#include "data/epoch_order.h"
#include "worker/arriving_weights.h"
#include "worker/member.h"
#include "worker/pushed_factors.h"
#include "worker/waited.h"
#include "worker/worker_core.h"

namespace psgd {

// The steps that are dealt to this worker.
struct ClientShare {
  uint64_t segment = 0;
  uint32_t epoch = 0;
  uint32_t batches = 0;
  bool ends_epoch = false;
  uint32_t rank = 0, ranks = 1;  // of the workers in this segment
};

// Errors of all calls: ABORTED: a wait reached its limit. CANCELLED: the run is over for this
// worker. After KeepState, NextShare and Wait may return WantsState. All other errors are as in
// WorkerCore's other shells. Not thread-safe.
class Client {
 public:
  // Joins the run. `plugin_dir`: where the codecs of GPUs are, see FindInPlugin.
  static absl::StatusOr<std::unique_ptr<Client>> Join(MemberOptions options,
                                                      std::string plugin_dir = "");

  const Config& config() const { return member_.config(); }
  uint32_t worker() const { return member_.key().worker(); }
  const std::string& run_name() const { return member_.joined().run_name(); }

  // `first` has as many values as the shape.
  absl::Status AddTensor(const ClientTensor& tensor, std::span<const float> first);
  absl::Status Commit(uint64_t samples, uint32_t epochs);
  // The updates of the step under way, and where they are coded.
  Pushes& pushes() { return pushes_; }
  // When the returned object ends, the calling thread has its present device again.
  DevicePushes::KeptThreadDevice KeepThreadDevice() const {
    return DevicePushes::KeptThreadDevice(pushes_.devices());
  }

  // Waits at most until `until`. REQUIRES of the program: no step of the last share is left.
  absl::StatusOr<std::optional<ClientShare>> NextShare(Time until);
  // Why NextShare returned nothing.
  const std::string& over_why() const { return over_why_; }
  absl::Status BatchIndices(uint32_t batch, std::span<uint32_t> indices);
  // Waits for the weights of the next step, or for those after the share.
  absl::Status Wait(Time until);
  // Waits for the weights of one tensor. The others may still be on their way.
  absl::Status WaitFor(uint32_t tensor, Time until);
  absl::Status Get(uint32_t tensor, std::span<float> values);
  // Ends the step. The client itself fills in the times of encoding and waiting in `step`.
  absl::Status EndStep(StepReport step);
  // Whether the step under way ends with an exchange. With local steps most do not: nothing may be
  // pushed in them, and the program goes on with its own weights.
  absl::StatusOr<bool> Exchanges() const;

  // The program has a state of its own that checkpoints keep: bytes that only it understands.
  void KeepState() { state_.Keep(); }
  // Gives the state to the checkpoint that wants it.
  absl::Status SaveState(ByteSpan state) { return state_.Give(state); }
  // The state in the checkpoint that the run goes on from, until the first step has ended. Null:
  // the checkpoint has none. DATA_LOSS: it has only a part. The first share must be here.
  absl::StatusOr<const std::vector<std::byte>*> LoadedState() const;

  absl::Status Report(EvalResult result);
  // Tells the people who watch the run of something that the program may not mean.
  void Note(const std::string& text);
  const ClientTimings& timings() const { return timings_; }
  // Ends the call that is under way in another thread. Only Leave may follow.
  void Interrupt() { member_.Close(); }
  // No call may follow.
  absl::Status Leave(bool failed, const std::string& reason);

 private:
  // How far the tasks are carried out.
  enum class Goal {
    kWeights,  // until a step begins, the share ends, or the weights of awaited_ are here
    kShare,    // until a step begins: the coordinator is asked
    kEnd,      // until the worker has left
  };

  static constexpr int kAll = -1;

  Client(MemberOptions options, std::string plugin_dir)
      : pushes_(
            std::move(plugin_dir), [this] { return CheckMayPush(); }, &tensors_, &member_,
            &timings_),
        member_(std::move(options)) {}
  absl::Status Prepare();
  absl::Status RegisterModel(uint64_t samples, uint32_t epochs);
  absl::Status GiveFirstWeights();
  absl::Status Connect();

  absl::Status Drive(Goal goal, Time until);
  absl::Status CarryOut(Goal goal);
  bool Reached(Goal goal) const;

  absl::Status Do(const task::AskSegment& ask);
  absl::Status Do(const task::Pause& pause);
  absl::Status Do(const task::Await& await);
  absl::Status TakeWeights();
  absl::Status Do(const task::RestoreState& restore);
  absl::Status Do(const task::SaveState& save);
  absl::Status Do(const task::BeginSegment& begin);
  absl::Status Do(const task::Install& install);
  absl::Status Do(const task::Train& train);
  absl::Status Do(const task::Evaluate& evaluate);
  absl::Status Do(const task::Report& report);
  absl::Status Do(const task::GiveResidual& give);
  absl::Status Do(const task::Leave& leave);
  void Done();
  // Tells the core whether this worker is to leave.
  void SetAsked();

  // A step is under way.
  absl::Status CheckInStep(const char* call) const;
  // A step is under way that ends with an exchange.
  absl::Status CheckMayPush() const;
  // WantsState: the program has a state and did not give it yet.
  absl::Status AskForState();

  Heartbeat& heartbeat() { return member_.heartbeat(); }
  const Heartbeat& heartbeat() const { return member_.heartbeat(); }
  WorkerCore& core() { return member_.core(); }
  const WorkerCore& core() const { return member_.core(); }
  Session& session() { return member_.session(); }

  const FreedMemoryKeeper keeper_;  // ends after all that frees memory
  ClientTensors tensors_;
  ClientTimings timings_;
  PushedFactors factors_;  // always empty: a program pushes whole gradients
  Pushes pushes_;          // has the encoder, which outlives the member
  Member member_;
  std::optional<EpochOrder> order_;
  std::unique_ptr<ArrivingWeights> arriving_;
  std::optional<Session::Away> away_;  // while the program computes

  Time until_ = Time::max();       // of the call under way
  int awaited_ = kAll;             // the only tensor that it waits for
  bool arrive_ = false;            // weights arrive for the present task::Await
  std::optional<Time> pause_end_;  // of the present task::Pause
  std::optional<Segment> segment_;
  bool new_share_ = false;   // the program has not seen the segment
  bool installed_ = false;   // the weights of the present task::Install were taken
  uint64_t local_step_ = 0;  // how many local steps have ended since the last exchange
  bool leaves_ = false;      // the program wants to leave
  bool over_ = false;
  std::string over_why_;
  KeptState state_;
  Waited waited_;  // since the last report
  double reported_encode_ = 0;
};

}  // namespace psgd
