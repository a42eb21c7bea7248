// The training of one worker: joins the run, then step after step pulls, computes, encodes and
// pushes, until the coordinator says that it is over.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "data/loader.h"
#include "data/open_data.h"
#include "engine/runtime/replicas.h"
#include "net/transport.h"
#include "train/autotune.h"
#include "train/step_trace.h"
#include "train/trainer_options.h"
#include "train/weights_ahead.h"
#include "worker/control_client.h"
#include "worker/heartbeat.h"
#include "worker/push_log.h"
#include "worker/pushed_factors.h"
#include "worker/session.h"
#include "worker/update_encoder.h"
#include "worker/waited.h"

namespace psgd {

// Not thread-safe: Run is called once, on the thread that trains.
class Trainer {
 public:
  explicit Trainer(TrainerOptions options);
  ~Trainer();

  // OK when the run ended or this worker left it as asked.
  absl::Status Run();

 private:
  absl::Status Prepare();
  absl::Status TrainSegments();
  absl::Status RunSegment(const Segment& segment);
  absl::Status Step(const Segment& segment, uint64_t clock);
  absl::Status EvaluateNow(double epoch, uint64_t clock);
  absl::Status SaveState(uint64_t checkpoint);
  absl::Status LoadState();
  // Weights fit for `clock` finished steps, into the network.
  absl::Status PullWeights(uint64_t clock);
  // Asks for them while a step computes (consistency.pull_ahead).
  void PullAhead(const Segment& segment, uint64_t clock);
  // What a GPU needs to get them then, too; without, where it lacks room.
  absl::Status PrepareAhead();
  // While a step computes: begins to install what was asked for ahead, once it is here. Whether it
  // is to be called again.
  bool InstallAhead();
  // A shard has taken in a push that first left then.
  void Acknowledged(const Message& push, Time sent);
  // Of this worker in the segment's deal.
  bool HasBatch(const Segment& segment, uint64_t clock) const;
  // That of the step, and where a device takes it ahead that of the next one into ahead_.
  absl::StatusOr<Batch> NextBatch(const Segment& segment, uint64_t clock);
  // Makes the encoder, of a GPU's gradients there.
  absl::Status PrepareEncoder(const NetworkOptions& first);
  // Where the shards are, if another server leads the run by now.
  absl::StatusOr<std::optional<MovedShards>> ShardsMoved() const;
  // Encodes the gradient of a parameter, which is final, and pushes it.
  absl::Status PushGradient(int parameter);
  // Decodes what was pulled into the network.
  absl::Status InstallWeights();
  absl::Status Interrupted() const;
  // Whether this process, or this worker alone, was asked to stop, and how much is left of the time
  // that it has for that.
  bool Asked() const;
  Duration DrainTimeLeft() const;
  // Whether to leave before the next step: asked to stop, and the run goes on without this worker.
  absl::StatusOr<bool> LeavesTheRun();
  // Pushes what codecs left behind as the update of the clock after `done`, and waits until it came
  // in. Cancelled, with what became of it.
  absl::Status PushResidual(uint64_t done);
  // Tells the coordinator what codecs left behind.
  absl::Status ReportResidual();
  // Says in the log what was left out of the data since it last did.
  void ReportDamage();
  void Report(const Network::Result& result);
  // How a GPU runs the steps, once, and each step that was run again in fp16.
  void ReportLaunches(uint64_t clock, const Network::Result& result);
  // What the residual is that goes with this worker, if nothing is known of it yet.
  void NoteResidualLeft(const absl::Status& status);
  void Leave(const absl::Status& status);

  const TrainerOptions options_;
  std::atomic<bool> closing_{false};
  std::unique_ptr<ControlClient> client_;
  WorkerKey key_;
  Config config_;
  std::optional<DataSets> data_;
  std::unique_ptr<BatchLoader> loader_;
  std::unique_ptr<Replicas> network_;
  Placement placement_;
  CodecTable codecs_;
  std::unique_ptr<DeviceCodecs> device_codecs_;  // of a GPU that gradients leave as payloads
  std::unique_ptr<UpdateEncoder> encoder_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<PushLog> push_log_;
  StepTrace trace_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Autotune> autotune_;
  std::unique_ptr<Heartbeat> heartbeat_;

  PushedFactors pushed_factors_;
  std::optional<Batch> ahead_;                   // of the next step; a device has it, or gets it
  std::optional<uint64_t> pulled_ahead_;         // the clock that the pull under way is for
  std::unique_ptr<WeightsAhead> weights_ahead_;  // null: they are installed between the steps
  uint64_t dense_bytes_ = 0;                     // of all slices as fp32
  uint64_t saved_checkpoint_ = 0;                // the last one this worker gave its state to
  std::optional<double> residual_norm_left_;     // of what a last push did not carry
  Time residual_reported_{};
  uint64_t reported_damage_ = 0;
  EndpointStats reported_traffic_;
  SessionStats reported_;
  uint64_t step_clock_ = 0;       // of the step under way
  double step_weight_decay_ = 0;  // likewise
  double seconds_data_ = 0;
  double seconds_compute_ = 0;
  double seconds_encode_ = 0;
  uint64_t steps_ = 0;                 // of a GPU
  uint64_t repeated_steps_ = 0;        // since gradients left fp16
  Waited waited_;                      // for weights
  double cpu_seconds_ = 0;             // of this process, when its part was last reported
  std::vector<EncodedSlice> encoded_;  // scratch
};

}  // namespace psgd
