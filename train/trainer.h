// The training of one worker: joins the run, then does what its WorkerCore says, until it leaves.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "data/loader.h"
#include "data/open_data.h"
#include "engine/runtime/replicas.h"
#include "net/transport.h"
#include "train/local_steps.h"
#include "train/progress_log.h"
#include "train/step_pushes.h"
#include "train/step_trace.h"
#include "train/trainer_options.h"
#include "train/weights_ahead.h"
#include "worker/arriving_weights.h"
#include "worker/member.h"
#include "worker/push_log.h"
#include "worker/worker_core.h"

namespace psgd {

// Not thread-safe: Run is called once, on the thread that trains.
class Trainer {
 public:
  explicit Trainer(TrainerOptions options);

  // OK: the run has ended, or this worker left the run as it was asked to.
  absl::Status Run();

 private:
  // Joins the run and makes all that the tasks need.
  absl::Status Prepare();
  // Makes room on a GPU for weights that are pulled ahead, or says that it lacks room.
  absl::Status PrepareAhead();
  absl::Status Train();

  // The tasks of WorkerCore.
  absl::Status Do(const task::AskSegment& ask);
  absl::Status Do(const task::Pause& pause);
  absl::Status Do(const task::Await& await);
  absl::Status Do(const task::RestoreState& restore);
  absl::Status Do(const task::SaveState& save);
  absl::Status Do(const task::BeginSegment& begin);
  absl::Status Do(const task::Install& install);
  absl::Status Do(const task::Train& train);
  absl::Status Do(const task::Evaluate& evaluate);
  absl::Status Do(const task::Report& report);
  absl::Status Do(const task::GiveResidual& give);
  // Cancelled: the worker was asked to leave.
  absl::Status Do(const task::Leave& leave);
  // The task is done.
  void Done();

  // Called while a step computes: begins to install the weights that were pulled ahead, once they
  // are here. Returns whether it must be called again.
  bool InstallAhead();
  // Returns the batch of the step. If a device takes the next batch ahead, also puts that batch
  // into ahead_ if it is ready. `another`: the clock has another batch.
  absl::StatusOr<Batch> NextBatch(uint64_t clock, bool another);
  // Whether the next batch is in ahead_ by now.
  absl::StatusOr<bool> NextBatchIsHere();
  // Brings the weights of a parameter, or all, during a step that began without them.
  using Bring = std::function<absl::Status(int)>;
  // For a step that begins during an Await of weights, before they are here: the function that the
  // step calls for them.
  Bring BringArriving();
  // Where the weights of a parameter are installed.
  std::span<float> Installed(int parameter);
  // Keeps the present weights while their average takes their place. PutBackWeights puts them back.
  void KeepWeights();
  void PutBackWeights();
  // Computes the step that leads to `clock`, and pushes its updates. `bring`: as in BesideStep.
  absl::Status Step(uint64_t clock, const Bring& bring);
  // Takes the local steps that lead to `clock`, and pushes the weight change. `bring`, if set,
  // brings the weights that the core waits for, after this worker's part of local.delay.
  absl::Status StepLocally(uint64_t clock, const Bring& bring);
  // Takes one of the local steps. `time`: of the step in the run. `another`: the clock has a step
  // after it.
  absl::Status LocalStep(uint64_t clock, const ScheduleTime& time, bool another);
  // The network whose device makes the local steps; null: the host makes them.
  absl::StatusOr<Network*> DeviceOfLocalSteps(size_t replicas);
  // Adds the state that the local steps need in order to go on later.
  absl::Status AddLocalState(std::vector<std::pair<uint32_t, Bytes>>* states);
  // If this worker must leave or the run drains, ends the local steps without a push, because many
  // may be left. Returns whether it ended them.
  bool GaveUpLocalSteps();
  // Explains an error that the pulled weights gave.
  absl::Status OfWeights(absl::Status status) const;
  // Called when a shard has acknowledged `push`, which was first sent at `sent`.
  void Acknowledged(const Message& push, Time sent);

  // An error: this worker must end at once, without its residual pushed.
  absl::Status StopsAtOnce() const;
  // Whether this process, or this worker alone, was asked to stop. If so, DrainTimeLeft returns how
  // much time is left for that.
  bool Asked() const;
  Duration DrainTimeLeft() const;

  // Warns in the worker's log, and tells the people who watch the run.
  void Warn(const std::string& text);
  // An error: the step's loss is not finite.
  absl::Status ReportStep(uint64_t clock, uint64_t step, const Network::Result& result);
  // Tells the core whether this worker must leave, and whether the run drains.
  void TellAsked();
  // Finds out the norm of the residual that is lost with this worker, if it is not known yet.
  void NoteResidualLeft(const absl::Status& status);
  void Leave(const absl::Status& status);

  const Config& config() const { return member_.config(); }
  Heartbeat& heartbeat() { return member_.heartbeat(); }
  const Heartbeat& heartbeat() const { return member_.heartbeat(); }
  WorkerCore& core() { return member_.core(); }
  Session& session() { return member_.session(); }

  const TrainerOptions options_;
  std::optional<DataSets> data_;
  std::unique_ptr<BatchLoader> loader_;
  std::unique_ptr<Replicas> network_;
  CodecTable codecs_;
  std::optional<StepPushes> pushes_;
  std::unique_ptr<LocalSteps> local_;  // null: each step is an exchange
  std::optional<Segment> segment_;     // the present one, for local steps
  std::unique_ptr<PushLog> push_log_;
  StepTrace trace_;
  Member member_;
  std::unique_ptr<ArrivingWeights> weights_;

  std::optional<Batch> ahead_;  // the next step's batch, if it is here; a device has or gets it
  std::unique_ptr<WeightsAhead> weights_ahead_;  // null: they are installed between the steps
  std::string waiting_for_;                      // the last reason of a pause
  std::string gave_;                             // says which residual was pushed
  ProgressLog progress_log_;
  std::vector<std::vector<float>> kept_weights_;  // by parameter, while an average is evaluated
  uint64_t arriving_for_ = 0;  // the clock that the step with the arriving weights leads to
  StepReport took_;            // of the step under way
  double cpu_seconds_ = 0;     // of this process, when its part was last reported
};

}  // namespace psgd
