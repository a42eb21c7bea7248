// A program as a worker of a run: what libpsgd's calls do. As train/trainer.h it is a shell around
// WorkerCore, but the program says when a step begins and ends, and has the data and the network.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/device_pushes.h"
#include "common/clock.h"
#include "common/freed_memory.h"
#include "common/status.h"
#include "compression/codec.h"
#include "data/epoch_order.h"
#include "worker/arriving_weights.h"
#include "worker/member.h"
#include "worker/pushed_factors.h"
#include "worker/update_encoder.h"
#include "worker/waited.h"
#include "worker/worker_core.h"

namespace psgd {

struct ClientTensor {
  std::string name;
  std::vector<int64_t> shape;
  bool statistic = false;
  bool decays = false;
  bool sparse = false;  // most rows of an update are zero
};

// The steps that are dealt to this worker.
struct ClientShare {
  uint64_t segment = 0;
  uint32_t epoch = 0;
  uint32_t batches = 0;
  bool ends_epoch = false;
  uint32_t rank = 0, ranks = 1;  // of the workers in this segment
};

// Where the updates of a tensor are coded. With a base, the device needs the weights that the
// program got last, too.
enum class CodedOn { kHost, kDevice, kDeviceWithBase };

struct ClientTimings {
  uint64_t steps = 0;
  double wait = 0, install = 0, encode = 0, copy = 0, control = 0;  // seconds
  uint64_t bytes_pushed = 0, bytes_pulled = 0;
};

// A call out of order, such as a push between two steps.
bool IsOutOfOrder(const absl::Status& status);
// A checkpoint wants the program's state: SaveState, and the same call again.
bool WantsState(const absl::Status& status);

// Errors: WantsState of NextShare and Wait, after KeepState. ABORTED when a wait reached its limit,
// CANCELLED when the run is over for this worker, and what the calls of WorkerCore's other shells
// give. Not thread-safe.
class Client {
 public:
  // Joins the run. `plugin_dir`: where the codecs of GPUs are, see FindInPlugin.
  static absl::StatusOr<std::unique_ptr<Client>> Join(MemberOptions options,
                                                      std::string plugin_dir = "");

  const Config& config() const { return member_.config(); }
  uint32_t worker() const { return member_.key().worker(); }
  const std::string& run_name() const { return member_.joined().run_name(); }

  // Whether the program has the optimizer, and pushes weights.
  bool PushesWeights() const;

  // `first` has as many values as the shape.
  absl::Status AddTensor(const ClientTensor& tensor, std::span<const float> first);
  // The program pushes the tensor from the memory of that CUDA device, where it can be coded there.
  absl::Status UseDevice(uint32_t tensor, int device);
  absl::Status Commit(uint64_t samples, uint32_t epochs);
  // REQUIRES of the program: it has committed.
  absl::StatusOr<CodedOn> WhereCoded(uint32_t tensor) const;
  // The calling thread's device is the same again when the returned object ends.
  DevicePushes::KeptThreadDevice KeepThreadDevice() const {
    return DevicePushes::KeptThreadDevice(device_pushes_);
  }

  // Waits at most until `until`. REQUIRES of the program: no step of the last share is left.
  absl::StatusOr<std::optional<ClientShare>> NextShare(Time until);
  absl::Status BatchIndices(uint32_t batch, std::span<uint32_t> indices);
  // The weights of the next step, or those after the share.
  absl::Status Wait(Time until);
  // Those of one tensor: the others may still be on their way.
  absl::Status WaitFor(uint32_t tensor, Time until);
  absl::Status Get(uint32_t tensor, std::span<float> values);
  absl::Status PushWeights(uint32_t tensor, std::span<const float> values);
  absl::Status PushGradient(uint32_t tensor, std::span<const float> values);
  // The same of values on the device that codes the tensor. Does not wait for the device.
  // The memory must not change until EndStep. This push, a later one, Sent, EndStep or Leave tells
  // of values that are not finite.
  absl::Status PushDeviceWeights(uint32_t tensor, const DeviceValues& values);
  absl::Status PushDeviceGradient(uint32_t tensor, const DeviceValues& values);
  // As PushWeights or PushGradient, of a tensor of whose rows the others did not change. `rows`:
  // strictly ascending.
  absl::Status PushRows(uint32_t tensor, std::span<const int64_t> rows,
                        std::span<const float> values);
  // Which elements the last push of the tensor sent, where its codec sends single elements and
  // leaves the others for later: 1, and 0 of the others. Elsewhere 0 of all.
  absl::Status Sent(uint32_t tensor, std::span<uint8_t> sent);
  // Whether the tensor's codec does so.
  absl::StatusOr<bool> SendsElements(uint32_t tensor) const;
  // Of `step`, what it encoded and waited for is known here.
  absl::Status EndStep(StepReport step);
  // Whether the step under way ends with an exchange. With local steps most do not: nothing may be
  // pushed in them, and the program goes on with its own weights.
  absl::StatusOr<bool> Exchanges() const;

  // The program has a state of its own that checkpoints keep: bytes that only it understands.
  void KeepState() { keeps_state_ = true; }
  // For the checkpoint that wants it.
  absl::Status SaveState(ByteSpan state);
  // Of the checkpoint that the run goes on from, until the first step has ended; nothing: it has
  // none. DATA_LOSS: it has only a part. The first share must be here.
  absl::StatusOr<const std::vector<std::byte>*> LoadedState() const;

  absl::Status Report(EvalResult result);
  // For the people who watch the run: what may not be meant.
  void Note(const std::string& text);
  ClientTimings timings() const;
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
      : device_pushes_(std::move(plugin_dir)), member_(std::move(options)) {}
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
  bool IsAsked() const;

  absl::Status NoTensor(uint32_t tensor) const;
  // Checks the call's tensor and its size.
  absl::Status CheckTensor(uint32_t tensor, size_t count) const;
  // A step is under way that `tensor` may be pushed in.
  absl::Status CheckPush(uint32_t tensor, size_t count) const;
  absl::Status CheckInStep(const char* call) const;
  // Either weights or a gradient may be pushed, as the run's config says.
  absl::Status CheckIsWhatRunTakes(const ParameterSpec& parameter, bool weights) const;
  // A push from the host's memory: the host codes the tensor.
  absl::Status CheckHostPush(uint32_t tensor, size_t count, bool weights) const;
  // A push from a device's memory: the device codes the tensor.
  absl::Status CheckDevicePush(uint32_t tensor, const DeviceValues& values, bool weights) const;
  // `Update`: what UpdateEncoder::Encode takes.
  template <typename Update>
  absl::Status Push(uint32_t tensor, const Update& update);
  // Sends the payloads of a push.
  void Send(uint32_t tensor, std::vector<EncodedSlice>* encoded);
  // Sends the payloads that a device has made.
  DevicePushes::Take TakeFromDevices();
  // What a device encoded is finite: a device sends the update itself otherwise.
  absl::Status CheckFinite(uint32_t tensor, std::span<const EncodedSlice> encoded) const;
  // The error if the program pushes such a value, of weights or of a gradient.
  absl::Status NotFinite(uint32_t tensor, bool weights, size_t element, float value) const;
  // Waits for what devices encode of the step.
  absl::Status FinishDevicePushes();
  // WantsState: the program has a state and did not give it yet.
  absl::Status AskForState();

  Heartbeat& heartbeat() { return member_.heartbeat(); }
  const Heartbeat& heartbeat() const { return member_.heartbeat(); }
  WorkerCore& core() { return member_.core(); }
  const WorkerCore& core() const { return member_.core(); }
  Session& session() { return member_.session(); }

  const FreedMemoryKeeper keeper_;  // ends after all that frees memory
  ModelSpec model_;
  std::vector<std::vector<float>> weights_;  // by tensor: first ones, then those that came last
  bool committed_ = false;
  std::optional<EpochOrder> order_;
  CodecTable codecs_;
  PushedFactors factors_;       // none: a program pushes whole gradients
  DevicePushes device_pushes_;  // has the codecs of the encoder's devices
  std::unique_ptr<UpdateEncoder> encoder_;
  Member member_;
  std::unique_ptr<ArrivingWeights> arriving_;
  std::optional<Session::Away> away_;  // while the program computes

  Time until_ = Time::max();       // of the call under way
  int awaited_ = kAll;             // the only tensor that it waits for
  bool arrive_ = false;            // weights do, for the present task::Await
  std::optional<Time> pause_end_;  // of the present task::Pause
  std::optional<Segment> segment_;
  bool new_share_ = false;  // the program has not seen the segment
  bool installed_ = false;  // the weights of the present task::Install were taken
  uint64_t first_clock_ = 0;
  uint64_t local_step_ = 0;  // ended since the last exchange
  bool leaves_ = false;      // the program wants to leave
  bool over_ = false;
  std::string over_why_;
  bool keeps_state_ = false;
  bool state_wanted_ = false;
  std::optional<Bytes> state_;  // given, and not saved yet
  // Of the resumed checkpoint. An error: it has only a part.
  absl::StatusOr<std::optional<std::vector<std::byte>>> loaded_state_ = std::nullopt;
  std::vector<bool> pushed_;  // by tensor: in this step
  // By tensor: what a codec made of its last push, if it left something out.
  std::map<uint32_t, std::vector<EncodedSlice>> sent_;
  ClientTimings timings_;
  Waited waited_;  // since the last report
  double reported_encode_ = 0;
  std::vector<EncodedSlice> encoded_;  // scratch
  std::vector<float> update_;          // scratch
};

}  // namespace psgd
