#include "client/client.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "common/cpu_time.h"
#include "common/names.h"
#include "common/program_state.h"
#include "common/stopwatch.h"
#include "compression/policy.h"
#include "compression/slice_shape.h"
#include "optimizers/diverged.h"
#include "proto/local_steps.h"
#include "worker/install_slice.h"

namespace psgd {
namespace {

// A worker that leaves pushes its residual within this time.
constexpr Duration kDrainTime = std::chrono::seconds(30);
constexpr Duration kFarewell = std::chrono::seconds(1);
constexpr Duration kNap = std::chrono::milliseconds(20);
constexpr uint64_t kPartElements = 1u << 20;  // of first weights, in one message
constexpr int kMostGives = 3;                 // servers may change meanwhile
constexpr char kOutOfOrder[] = "psgd/out-of-order";
constexpr char kWantsState[] = "psgd/wants-state";
// A worker that leaves gets this much more time for its state.
constexpr size_t kStateBytesPerMs = 10'000;

template <typename... Parts>
absl::Status OutOfOrder(const Parts&... parts) {
  absl::Status status = FailedPreconditionError(parts...);
  status.SetPayload(kOutOfOrder, absl::Cord("1"));
  return status;
}

absl::Status TimeIsUp() { return absl::AbortedError("the time limit has passed"); }

// The index of the first value that is NaN or infinite; nothing: there is none.
std::optional<size_t> FirstNotFinite(std::span<const float> values) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t any = 0;
  for (const float value : values) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    any |= static_cast<uint32_t>((bits & kExponent) == kExponent);
  }
  if (any == 0) return std::nullopt;
  const auto first = std::ranges::find_if(values, [](float x) { return !std::isfinite(x); });
  return static_cast<size_t>(first - values.begin());
}

}  // namespace

bool IsOutOfOrder(const absl::Status& status) { return status.GetPayload(kOutOfOrder).has_value(); }
bool WantsState(const absl::Status& status) { return status.GetPayload(kWantsState).has_value(); }

absl::StatusOr<std::unique_ptr<Client>> Client::Join(MemberOptions options,
                                                     std::string plugin_dir) {
  PSGD_RETURN_IF_ERROR(CheckServerAddress(options.server));
  if (!IsName(options.name)) {
    return InvalidArgumentError("the worker's name \"", Readable(options.name),
                                "\" is not 1 to 64 letters, digits, '.', '_' or '-'");
  }
  std::unique_ptr<Client> client(new Client(std::move(options), std::move(plugin_dir)));
  PSGD_RETURN_IF_ERROR(client->Prepare());
  return client;
}

absl::Status Client::Prepare() {
  PSGD_RETURN_IF_ERROR(member_.Join());
  if (!config().model().has_client()) {
    member_.Leave(absl::OkStatus(), {.reason = "the run's model is not a program's"});
    return FailedPreconditionError(
        "the run ", run_name(), " at ", member_.options().server,
        " trains a model of its own config, and this program brings another; say model: client in "
        "the config, or start ps-worker in place of this program");
  }
  member_.KeepLease();
  model_.set_name("client");
  return absl::OkStatus();
}

absl::Status Client::AddTensor(const ClientTensor& tensor, std::span<const float> first) {
  if (committed_) {
    return OutOfOrder("tensor ", tensor.name,
                      " comes after the commit; the run's tensors are fixed when the first worker "
                      "commits: add all tensors before, and start a new run for another model");
  }
  const auto same = std::ranges::find_if(
      model_.parameters(), [&](const ParameterSpec& p) { return p.name() == tensor.name; });
  if (same != model_.parameters().end()) {
    return InvalidArgumentError("two tensors are called ", Readable(tensor.name),
                                "; add tied weights once");
  }
  if (const auto bad = FirstNotFinite(first)) {
    return OutOfRangeError("the first weights of ", tensor.name, " are not finite: element ", *bad,
                           " is ", first[*bad]);
  }
  ParameterSpec& parameter = *model_.add_parameters();
  parameter.set_name(tensor.name);
  parameter.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
  parameter.set_role(tensor.statistic ? ParameterSpec::STATISTIC : ParameterSpec::TRAINED);
  parameter.set_decay(tensor.decays && !tensor.statistic);
  parameter.set_sparse(tensor.sparse && !tensor.statistic);
  parameter.mutable_initializer()->mutable_given()->set_checksum(ChecksumOf(std::as_bytes(first)));
  weights_.emplace_back(first.begin(), first.end());
  return absl::OkStatus();
}

absl::Status Client::UseDevice(uint32_t tensor, int device) {
  if (tensor >= weights_.size()) return NoTensor(tensor);
  if (committed_) {
    return OutOfOrder("the device of a tensor comes after the commit; say it before");
  }
  if (device < 0) {
    return InvalidArgumentError("CUDA device ", device, " of ",
                                model_.parameters(static_cast<int>(tensor)).name(),
                                "; devices are numbered from 0");
  }
  device_pushes_.Use(tensor, device);
  return absl::OkStatus();
}

absl::Status Client::Commit(uint64_t samples, uint32_t epochs) {
  if (committed_) return OutOfOrder("the model was committed before; commit once");
  if (model_.parameters_size() == 0) return OutOfOrder("no tensor was added before the commit");
  const auto batch = static_cast<uint64_t>(config().data().batch());
  if (samples < batch || samples > UINT32_MAX) {
    return InvalidArgumentError("a data set of ", samples, " samples does not fit batches of ",
                                batch,
                                " (data.batch of the run's config): there must be at least "
                                "one batch, and at most ",
                                UINT32_MAX, " samples");
  }
  PSGD_RETURN_IF_ERROR(RegisterModel(samples, epochs));
  order_.emplace(samples, config().data().batch(), config().seed());
  const std::vector<DeviceCodecs*> devices = device_pushes_.Open(model_, config());
  const auto kept = KeepThreadDevice();
  PSGD_ASSIGN_OR_RETURN(
      encoder_, UpdateEncoder::Create(config(), model_, member_.placement(), member_.key().worker(),
                                      /*factor_rows=*/{}, devices));
  device_pushes_.Tell(model_, *encoder_, member_.options().log);
  pushed_.assign(weights_.size(), false);
  PSGD_RETURN_IF_ERROR(Connect());
  committed_ = true;
  return absl::OkStatus();
}

absl::Status Client::RegisterModel(uint64_t samples, uint32_t epochs) {
  RegisterRequest request;
  *request.mutable_key() = member_.key();
  *request.mutable_model() = model_;
  request.set_train_samples(samples);
  request.set_batches_per_epoch(samples / static_cast<uint64_t>(config().data().batch()));
  request.set_epochs(epochs);
  const Time start = SteadyNow();
  int gives = 0;
  while (true) {
    PSGD_ASSIGN_OR_RETURN(const RegisterReply reply, member_.control().Register(request));
    if (reply.give_weights()) {
      if (++gives > kMostGives) {
        return absl::UnavailableError(
            "the server asks for the first weights again and again; does it restart?");
      }
      const absl::Status given = GiveFirstWeights();
      // Another leader of the run does not know what this one was asked for: ask it.
      if (!given.ok() && !(absl::IsFailedPrecondition(given) && gives < kMostGives)) return given;
      continue;
    }
    if (reply.wait_ms() <= 0) {
      member_.mutable_config()->mutable_train()->set_epochs(static_cast<int>(reply.epochs()));
      member_.Registered(reply, request.batches_per_epoch());
      return absl::OkStatus();
    }
    if (SteadyNow() - start > Milliseconds(config().cluster().deadline())) {
      return absl::DeadlineExceededError(absl::StrCat(
          "another worker brings the first weights, and has not given all of them within ",
          config().cluster().deadline(), " ms (cluster.deadline); does it hang?"));
    }
    PSGD_RETURN_IF_ERROR(member_.Interrupted());
    std::this_thread::sleep_for(Milliseconds(reply.wait_ms()));
  }
}

absl::Status Client::GiveFirstWeights() {
  for (size_t tensor = 0; tensor < weights_.size(); ++tensor) {
    const std::vector<float>& values = weights_[tensor];
    for (uint64_t offset = 0; offset < values.size(); offset += kPartElements) {
      const uint64_t count = std::min<uint64_t>(kPartElements, values.size() - offset);
      GiveWeightsRequest part;
      *part.mutable_key() = member_.key();
      part.set_parameter(static_cast<uint32_t>(tensor));
      part.set_offset(offset);
      part.set_values(values.data() + offset, count * sizeof(float));
      PSGD_RETURN_IF_ERROR(member_.control().GiveWeights(part).status());
    }
  }
  return absl::OkStatus();
}

absl::Status Client::Connect() {
  PSGD_RETURN_IF_ERROR(member_.Connect(
      {.encoder = encoder_.get(),
       .at_end = WorkerCore::AtEnd::kPull,
       .interrupted = [this] { return SteadyNow() >= until_ ? TimeIsUp() : absl::OkStatus(); },
       .until = [this] { return until_; }}));
  arriving_ = std::make_unique<ArrivingWeights>(
      ArrivingWeights::Options{.codecs = codecs_,
                               .model = model_,
                               .placement = member_.placement(),
                               .own = factors_,
                               .weights =
                                   [this](int tensor) {
                                     return std::span<float>(weights_[static_cast<size_t>(tensor)]);
                                   }},
      &core().session(), &session());
  return absl::OkStatus();
}

bool Client::Reached(Goal goal) const {
  if (over_) return true;
  if (std::holds_alternative<task::Train>(core().task())) {
    // A worker that is to leave drops local steps, of which there may be many.
    return goal != Goal::kEnd && (local_step_ == 0 || !IsAsked());
  }
  if (goal != Goal::kWeights) return false;
  if (awaited_ != kAll && arrive_ && arriving_->complete(awaited_)) return true;
  return std::holds_alternative<task::AskSegment>(core().task());
}

absl::Status Client::Drive(Goal goal, Time until) {
  if (Reached(goal)) return absl::OkStatus();
  until_ = until;
  away_.reset();
  const absl::Status status = CarryOut(goal);
  away_.emplace(&session());
  return status;
}

absl::Status Client::CarryOut(Goal goal) {
  while (!Reached(goal)) {
    PSGD_RETURN_IF_ERROR(member_.Interrupted());
    const WorkerTask now = core().task();
    PSGD_RETURN_IF_ERROR(std::visit([this](const auto& task) { return Do(task); }, now));
    session().Send();
    // Behind a task, so that a program that polls without waiting gets on.
    if (SteadyNow() >= until_ && !Reached(goal)) return TimeIsUp();
  }
  return absl::OkStatus();
}

void Client::Done() {
  SetAsked();
  core().Done(SteadyNow());
}

void Client::SetAsked() {
  // When the run drains, this worker leaves as if it alone were asked to: the end of its segment,
  // which may be an epoch, is far.
  core().SetAsked(IsAsked(), /*drain=*/false);
}

bool Client::IsAsked() const {
  return leaves_ || heartbeat().leave_asked().has_value() || heartbeat().drain();
}

absl::Status Client::Do(const task::AskSegment& ask) {
  Stopwatch asking(&timings_.control);
  PSGD_ASSIGN_OR_RETURN(const NextSegmentReply next, member_.AskSegment(ask));
  SetAsked();
  core().OnSegment(next, SteadyNow());
  return absl::OkStatus();
}

absl::Status Client::Do(const task::Pause& pause) {
  // A program with a state stays for the last checkpoint of a run that drains.
  const bool saves = keeps_state_ && !leaves_ && heartbeat().drain();
  if (pause.leaves && !saves) {
    PSGD_ASSIGN_OR_RETURN(const bool leaves, member_.LeaveWithoutResidual());
    if (leaves) return absl::OkStatus();
  }
  Stopwatch waiting(&timings_.control);
  if (!pause_end_) pause_end_ = SteadyNow() + pause.duration;
  for (Time now = SteadyNow(); now < *pause_end_; now = SteadyNow()) {
    PSGD_RETURN_IF_ERROR(member_.Interrupted());
    if (now >= until_) return TimeIsUp();
    std::this_thread::sleep_for(std::min<Duration>({kNap, *pause_end_ - now, until_ - now}));
  }
  pause_end_.reset();
  Done();
  return absl::OkStatus();
}

absl::Status Client::Do(const task::Await& await) {
  if (await.what == task::Await::kWeights) return TakeWeights();
  Stopwatch waiting(&timings_.control);
  return session().WaitUntil([this] { return core().Advance(SteadyNow()); });
}

absl::Status Client::TakeWeights() {
  if (!std::exchange(arrive_, true)) arriving_->Begin();
  const absl::Status here = awaited_ == kAll ? arriving_->AwaitAll() : arriving_->Await(awaited_);
  if (absl::IsOutOfRange(here)) {
    return OutOfRangeError(WeightsDivergedText(config(), here.message()));
  }
  PSGD_RETURN_IF_ERROR(here);
  core().Advance(SteadyNow());
  return absl::OkStatus();
}

absl::Status Client::Do(const task::RestoreState&) {
  const std::map<uint32_t, Bytes> loaded = core().session().TakeLoadedState();
  loaded_state_ = JoinProgramState(loaded);
  if (!loaded_state_->has_value() && loaded.lower_bound(kProgramState) != loaded.end()) {
    loaded_state_ = DataLossError(
        "the checkpoint that the run ", run_name(),
        " goes on from has only a part of the state of "
        "worker ",
        worker(),
        ": did that worker end while the checkpoint was taken? Go on from "
        "an earlier one (ps-ctl checkpoints RUN_DIR lists them): ps-run --resume RUN_DIR "
        "--checkpoint ID -- COMMAND");
  }
  PSGD_RETURN_IF_ERROR(member_.RestoreResiduals(loaded));
  Done();
  return absl::OkStatus();
}

absl::Status Client::Do(const task::SaveState& save) {
  PSGD_RETURN_IF_ERROR(AskForState());
  PSGD_ASSIGN_OR_RETURN(auto states, member_.SaveResiduals());
  if (state_) std::ranges::move(SplitProgramState(*state_), std::back_inserter(states));
  state_.reset();
  core().session().SaveState(save.checkpoint, states, SteadyNow());
  Done();
  return absl::OkStatus();
}

absl::Status Client::AskForState() {
  if (!keeps_state_ || state_ || leaves_) return absl::OkStatus();
  state_wanted_ = true;
  absl::Status wants = absl::AbortedError("a checkpoint wants the program's state");
  wants.SetPayload(kWantsState, absl::Cord("1"));
  return wants;
}

absl::Status Client::SaveState(ByteSpan state) {
  if (!state_wanted_) {
    return OutOfOrder("no checkpoint wants a state now; give it when a call returns PSGD_SAVE");
  }
  if (state.size() > kMostProgramState) {
    return InvalidArgumentError("the program's state has ", state.size(), " bytes, and at most ",
                                kMostProgramState,
                                " go into a checkpoint; leave out what the program can make again, "
                                "or keep it in a file of its own");
  }
  state_ = Bytes::CopyOf(state);
  state_wanted_ = false;
  return absl::OkStatus();
}

absl::StatusOr<const std::vector<std::byte>*> Client::LoadedState() const {
  if (!segment_) return OutOfOrder("no share was dealt yet; ask for the next share before");
  PSGD_RETURN_IF_ERROR(loaded_state_.status());
  return loaded_state_->has_value() ? &**loaded_state_ : nullptr;
}

absl::Status Client::Do(const task::BeginSegment& begin) {
  segment_ = begin.segment;
  first_clock_ = begin.segment.first_clock();
  local_step_ = 0;
  new_share_ = true;
  Done();
  return absl::OkStatus();
}

absl::Status Client::Do(const task::Install& install) {
  // This task comes again if the choice of codecs fails.
  if (!std::exchange(installed_, true)) {
    core().session().TakePulled();
    timings_.wait += arriving_->waited();
    timings_.install += arriving_->installing();
    waited_ += PartsOfWait(arriving_->waited(), core().session().last_answer());
    arrive_ = false;
  }
  if (install.for_step) {
    Stopwatch choosing(&timings_.encode);
    // A measurement that stops halfway would begin again in each call of a program that polls.
    const Time until = std::exchange(until_, Time::max());
    const absl::Status chosen = member_.autotune().BetweenSteps(install.clock);
    until_ = until;
    PSGD_RETURN_IF_ERROR(chosen);
  }
  installed_ = false;
  Done();
  return absl::OkStatus();
}

// Only for a worker that leaves: otherwise the program computes the step.
absl::Status Client::Do(const task::Train&) {
  core().SetAsked(true, /*drain=*/false);
  local_step_ = 0;
  core().GiveUpStep(SteadyNow());
  return absl::OkStatus();
}

absl::Status Client::Do(const task::Evaluate&) {
  return absl::InternalError(
      "the run asks this worker to evaluate, and programs do that by themselves; is the server of "
      "another version of psgd?");
}

absl::Status Client::Do(const task::Report& report) {
  Stopwatch reporting(&timings_.control);
  PSGD_RETURN_IF_ERROR(member_.Report(report));
  Done();
  return absl::OkStatus();
}

absl::Status Client::Do(const task::GiveResidual& give) {
  Duration limit = kDrainTime;
  if (heartbeat().drain()) {
    PSGD_RETURN_IF_ERROR(AskForState());
    if (state_) {
      limit += Milliseconds(static_cast<int64_t>(state_->size() / kStateBytesPerMs));
      core().session().SaveState(0, SplitProgramState(*state_), SteadyNow());
    }
    state_.reset();
  }
  // Not the limit of a program that polls: what is under way by then would count as lost.
  const Time until = std::exchange(until_, SteadyNow() + limit);
  const absl::StatusOr<GivenResidual> given = member_.GiveResidual(give);
  until_ = until;
  return given.ok() ? given->pushed : given.status();
}

absl::Status Client::Do(const task::Leave& leave) {
  over_ = true;
  over_why_ =
      leave.why == task::Leave::kRunIsOver ? leave.reason : "this worker was asked to leave";
  member_.options().log->info("done: {}", over_why_);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<ClientShare>> Client::NextShare(Time until) {
  if (!committed_) return OutOfOrder("the model is not committed; commit it before");
  const auto* train = std::get_if<task::Train>(&core().task());
  if (train != nullptr && !new_share_) {
    const uint64_t steps = segment_->steps().empty() ? 1 : segment_->steps(0);
    const uint64_t ended = (train->clock - 1 - first_clock_) * steps + local_step_;
    return OutOfOrder("the share has steps left: ", ended, " of ", segment_->batches_size(),
                      " have ended; end each, also without a push");
  }
  PSGD_RETURN_IF_ERROR(Drive(Goal::kShare, until));
  if (over_) return std::nullopt;
  new_share_ = false;
  return ClientShare{.segment = segment_->id(),
                     .epoch = segment_->epoch(),
                     .batches = static_cast<uint32_t>(segment_->batches_size()),
                     .ends_epoch = segment_->ends_epoch(),
                     .rank = segment_->rank(),
                     .ranks = segment_->ranks()};
}

absl::Status Client::BatchIndices(uint32_t batch, std::span<uint32_t> indices) {
  if (!segment_) return OutOfOrder("no share was dealt yet; ask for the next share before");
  if (batch >= static_cast<uint32_t>(segment_->batches_size())) {
    return InvalidArgumentError("batch ", batch, " of a share of ", segment_->batches_size());
  }
  if (indices.size() != static_cast<size_t>(config().data().batch())) {
    return InvalidArgumentError("room for ", indices.size(), " samples of a batch of ",
                                config().data().batch(), " (data.batch of the run's config)");
  }
  const auto samples = order_->Batch(segment_->epoch(), segment_->batches(static_cast<int>(batch)));
  std::ranges::copy(samples, indices.begin());
  return absl::OkStatus();
}

absl::Status Client::Wait(Time until) {
  if (!segment_) return OutOfOrder("no share was dealt yet; ask for the next share before");
  PSGD_RETURN_IF_ERROR(Drive(Goal::kWeights, until));
  if (over_) return absl::CancelledError(over_why_);
  return absl::OkStatus();
}

absl::Status Client::WaitFor(uint32_t tensor, Time until) {
  if (tensor >= weights_.size()) return NoTensor(tensor);
  awaited_ = static_cast<int>(tensor);
  const absl::Status status = Wait(until);
  awaited_ = kAll;
  return status;
}

absl::Status Client::NoTensor(uint32_t tensor) const {
  return InvalidArgumentError("tensor ", tensor, ", and there are ", weights_.size());
}

absl::Status Client::CheckTensor(uint32_t tensor, size_t count) const {
  if (tensor >= weights_.size()) return NoTensor(tensor);
  if (count == weights_[tensor].size()) return absl::OkStatus();
  return InvalidArgumentError(model_.parameters(static_cast<int>(tensor)).name(), " has ",
                              weights_[tensor].size(), " elements, and this call ", count,
                              "; did the tensor change its shape?");
}

absl::Status Client::Get(uint32_t tensor, std::span<float> values) {
  PSGD_RETURN_IF_ERROR(CheckTensor(tensor, values.size()));
  Stopwatch copying(&timings_.copy);
  std::ranges::copy(weights_[tensor], values.begin());
  return absl::OkStatus();
}

absl::Status Client::CheckInStep(const char* call) const {
  if (!committed_) return OutOfOrder(call, " before the commit; commit the model before");
  if (over_) return absl::CancelledError(over_why_);
  if (!segment_) return OutOfOrder(call, " before a share was dealt; ask for the next share");
  if (std::holds_alternative<task::Train>(core().task()) && !new_share_) return absl::OkStatus();
  return OutOfOrder(call, " outside of a step: ",
                    std::holds_alternative<task::AskSegment>(core().task())
                        ? "the share has no step left; ask for the next share"
                        : "the weights of the next step are not here; wait for them");
}

absl::Status Client::CheckPush(uint32_t tensor, size_t count) const {
  PSGD_RETURN_IF_ERROR(CheckTensor(tensor, count));
  PSGD_ASSIGN_OR_RETURN(const bool exchanges, Exchanges());
  if (!exchanges) {
    return OutOfOrder(
        "a push in a local step: only the step that ends with an exchange has one "
        "(local.steps of the run's config); ask psgd_exchanges before");
  }
  if (!pushed_[tensor]) return absl::OkStatus();
  return OutOfOrder(model_.parameters(static_cast<int>(tensor)).name(),
                    " was pushed before in this step; end the step");
}

absl::StatusOr<bool> Client::Exchanges() const {
  PSGD_RETURN_IF_ERROR(CheckInStep("a step"));
  return local_step_ + 1 >= core().steps();
}

bool Client::PushesWeights() const {
  return config().optimizer().has_worker() || TakesLocalSteps(config().local());
}

absl::StatusOr<bool> Client::SendsElements(uint32_t tensor) const {
  if (tensor >= weights_.size()) return NoTensor(tensor);
  const ParameterSpec& parameter = model_.parameters(static_cast<int>(tensor));
  return SendsSingleElements(ChooseCodec(config().compression(), parameter));
}

absl::Status Client::CheckIsWhatRunTakes(const ParameterSpec& parameter, bool weights) const {
  const bool statistic = parameter.role() == ParameterSpec::STATISTIC;
  if (weights == (statistic || PushesWeights())) return absl::OkStatus();
  if (weights) {
    return OutOfOrder("the run's shards have the optimizer, and this program pushes weights of ",
                      parameter.name(),
                      "; push gradients, or say optimizer: worker in the run's config");
  }
  return OutOfOrder("a gradient of ", parameter.name(),
                    statistic
                        ? ", which is a statistic: push its values"
                        : ", but this worker has the optimizer (optimizer: worker): push weights");
}

absl::Status Client::CheckHostPush(uint32_t tensor, size_t count, bool weights) const {
  PSGD_RETURN_IF_ERROR(CheckPush(tensor, count));
  const ParameterSpec& parameter = model_.parameters(static_cast<int>(tensor));
  PSGD_RETURN_IF_ERROR(CheckIsWhatRunTakes(parameter, weights));
  if (!encoder_->on_device()[tensor]) return absl::OkStatus();
  return InvalidArgumentError(
      parameter.name(),
      " is coded on a GPU, and this call has values of the host; push it with "
      "psgd_push_device_weights or psgd_push_device_gradient, or leave out psgd_use_device");
}

absl::Status Client::CheckDevicePush(uint32_t tensor, const DeviceValues& values,
                                     bool weights) const {
  PSGD_RETURN_IF_ERROR(CheckPush(tensor, values.count));
  const ParameterSpec& parameter = model_.parameters(static_cast<int>(tensor));
  PSGD_RETURN_IF_ERROR(CheckIsWhatRunTakes(parameter, weights));
  PSGD_ASSIGN_OR_RETURN(const CodedOn where, WhereCoded(tensor));
  if (where == CodedOn::kHost) {
    return InvalidArgumentError(parameter.name(),
                                " is coded on the host, and this call has values of a GPU; the "
                                "log (log_file) says why, and psgd_get_place tells before: copy "
                                "the values to the host and push them there");
  }
  if (where == CodedOn::kDeviceWithBase && values.base == nullptr) {
    return InvalidArgumentError("the base of ", parameter.name(),
                                " is a null pointer; a device needs what psgd_get gave for ",
                                weights ? "the difference of weights" : "weight decay");
  }
  return absl::OkStatus();
}

absl::StatusOr<CodedOn> Client::WhereCoded(uint32_t tensor) const {
  if (tensor >= weights_.size()) return NoTensor(tensor);
  if (!committed_) return OutOfOrder("the model is not committed; commit it before");
  if (!encoder_->on_device()[tensor]) return CodedOn::kHost;
  const bool with_base = PushesWeights() || encoder_->adds_decay(static_cast<int>(tensor));
  return with_base ? CodedOn::kDeviceWithBase : CodedOn::kDevice;
}

absl::Status Client::PushWeights(uint32_t tensor, std::span<const float> values) {
  PSGD_RETURN_IF_ERROR(CheckHostPush(tensor, values.size(), /*weights=*/true));
  const ParameterSpec& parameter = model_.parameters(static_cast<int>(tensor));
  const bool trained = parameter.role() == ParameterSpec::TRAINED;
  {
    Stopwatch copying(&timings_.copy);
    const std::vector<float>& before = weights_[tensor];
    update_.resize(values.size());
    // Shards subtract what an optimizer gets, and add what statistics get.
    for (size_t i = 0; i < values.size(); ++i) {
      update_[i] = trained ? before[i] - values[i] : values[i] - before[i];
    }
    if (const auto bad = FirstNotFinite(update_)) {
      return NotFinite(tensor, /*weights=*/true, *bad, values[*bad]);
    }
  }
  return Push(tensor, std::span<const float>(update_));
}

absl::Status Client::PushGradient(uint32_t tensor, std::span<const float> values) {
  PSGD_RETURN_IF_ERROR(CheckHostPush(tensor, values.size(), /*weights=*/false));
  if (const auto bad = FirstNotFinite(values)) {
    return NotFinite(tensor, /*weights=*/false, *bad, values[*bad]);
  }
  return Push(tensor, values);
}

absl::Status Client::PushDeviceWeights(uint32_t tensor, const DeviceValues& values) {
  PSGD_RETURN_IF_ERROR(CheckDevicePush(tensor, values, /*weights=*/true));
  Stopwatch encoding(&timings_.encode);
  const uint64_t clock = std::get<task::Train>(core().task()).clock;
  PSGD_RETURN_IF_ERROR(device_pushes_.StartWeights(tensor, values, clock, encoder_.get()));
  pushed_[tensor] = true;
  return device_pushes_.FinishDone(encoder_.get(), TakeFromDevices());
}

absl::Status Client::PushDeviceGradient(uint32_t tensor, const DeviceValues& values) {
  PSGD_RETURN_IF_ERROR(CheckDevicePush(tensor, values, /*weights=*/false));
  Stopwatch encoding(&timings_.encode);
  const uint64_t clock = std::get<task::Train>(core().task()).clock;
  PSGD_RETURN_IF_ERROR(device_pushes_.StartGradient(
      tensor, values, heartbeat().hyper().weight_decay(), clock, encoder_.get()));
  pushed_[tensor] = true;
  return device_pushes_.FinishDone(encoder_.get(), TakeFromDevices());
}

absl::Status Client::PushRows(uint32_t tensor, std::span<const int64_t> rows,
                              std::span<const float> values) {
  const size_t elements = tensor < weights_.size() ? weights_[tensor].size() : 0;
  PSGD_RETURN_IF_ERROR(CheckPush(tensor, elements));
  const ParameterSpec& parameter = model_.parameters(static_cast<int>(tensor));
  const bool statistic = parameter.role() == ParameterSpec::STATISTIC;
  const bool of_weights = statistic || PushesWeights();
  PSGD_RETURN_IF_ERROR(CheckHostPush(tensor, elements, of_weights));
  const std::vector<float>& before = weights_[tensor];
  const size_t columns = elements / static_cast<size_t>(parameter.shape(0));
  if (values.size() / columns != rows.size() || values.size() % columns != 0) {
    return InvalidArgumentError(values.size(), " values for ", rows.size(), " rows of ",
                                parameter.name(), ", whose rows have ", columns);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] > (i == 0 ? -1 : rows[i - 1]) && rows[i] < parameter.shape(0)) continue;
    return InvalidArgumentError("row ", rows[i], " of ", parameter.name(), ", which has ",
                                parameter.shape(0), " rows; name rows once, in ascending order");
  }
  if (const auto bad = FirstNotFinite(values)) {
    return OutOfRangeError(DivergedText(config()), ". Row ", rows[*bad / columns], " of ",
                           parameter.name(), " is not finite: ", values[*bad]);
  }
  if (of_weights) {
    Stopwatch copying(&timings_.copy);
    update_.resize(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t row = static_cast<size_t>(rows[i / columns]);
      const float had = before[row * columns + i % columns];
      update_[i] = statistic ? values[i] - had : had - values[i];
    }
    values = update_;
  }
  return Push(tensor, SparseRows{rows, columns, values});
}

template <typename Update>
absl::Status Client::Push(uint32_t tensor, const Update& update) {
  const uint64_t clock = std::get<task::Train>(core().task()).clock;
  Stopwatch encoding(&timings_.encode);
  PSGD_RETURN_IF_ERROR(device_pushes_.LaunchIfMany());
  encoded_.clear();
  encoder_->Encode(static_cast<int>(tensor), update, weights_[tensor],
                   heartbeat().hyper().weight_decay(), clock, &encoded_);
  Send(tensor, &encoded_);
  pushed_[tensor] = true;
  return absl::OkStatus();
}

void Client::Send(uint32_t tensor, std::vector<EncodedSlice>* encoded) {
  const uint64_t clock = std::get<task::Train>(core().task()).clock;
  sent_.erase(tensor);
  if (encoder_->leaves_out(static_cast<int>(tensor))) sent_[tensor] = *encoded;
  for (EncodedSlice& slice : *encoded) {
    member_.autotune().Pushed(slice.travels().size());
    session().Push(clock, std::move(slice));
  }
}

DevicePushes::Take Client::TakeFromDevices() {
  return [this](uint32_t tensor, std::vector<EncodedSlice> encoded) -> absl::Status {
    if (absl::Status bad = CheckFinite(tensor, encoded); !bad.ok()) {
      pushed_[tensor] = false;
      return bad;
    }
    Send(tensor, &encoded);
    return absl::OkStatus();
  };
}

absl::Status Client::CheckFinite(uint32_t tensor, std::span<const EncodedSlice> encoded) const {
  for (const EncodedSlice& slice : encoded) {
    if (slice.codec != CODEC_NONE) continue;
    // The update itself, perhaps because it is not finite.
    std::vector<float> update(slice.payload.size() / sizeof(float));
    std::memcpy(update.data(), slice.payload.span().data(), slice.payload.size());
    const auto bad = FirstNotFinite(update);
    if (!bad) continue;
    const size_t element =
        member_.placement().slices(static_cast<int>(slice.slice)).offset() + *bad;
    const bool weights = PushesWeights();
    return NotFinite(tensor, weights, element,
                     weights ? weights_[tensor][element] - update[*bad] : update[*bad]);
  }
  return absl::OkStatus();
}

absl::Status Client::NotFinite(uint32_t tensor, bool weights, size_t element, float value) const {
  return OutOfRangeError(DivergedText(config()),
                         weights ? ". After this step " : ". The gradient of ",
                         model_.parameters(static_cast<int>(tensor)).name(),
                         " is not finite: element ", element, " is ", value);
}

absl::Status Client::FinishDevicePushes() {
  Stopwatch encoding(&timings_.encode);
  return device_pushes_.FinishAll(encoder_.get(), TakeFromDevices());
}

absl::Status Client::Sent(uint32_t tensor, std::span<uint8_t> sent) {
  PSGD_RETURN_IF_ERROR(CheckTensor(tensor, sent.size()));
  PSGD_RETURN_IF_ERROR(FinishDevicePushes());
  std::ranges::fill(sent, uint8_t{0});
  const ParameterSpec& parameter = model_.parameters(static_cast<int>(tensor));
  for (const EncodedSlice& slice : sent_[tensor]) {
    const SliceSpec& spec = member_.placement().slices(static_cast<int>(slice.slice));
    const Codec* codec = codecs_.Find(slice.codec);
    PSGD_ASSIGN_OR_RETURN(const auto reader,
                          codec->Open(slice.payload.span(), ShapeOf(spec, parameter)));
    if (!reader->sparse()) continue;
    std::array<uint32_t, 512> indices;
    std::array<float, 512> values;
    while (const size_t count = reader->NextEntries(indices, values)) {
      for (size_t i = 0; i < count; ++i) sent[spec.offset() + indices[i]] = 1;
    }
  }
  const bool all = std::ranges::find(sent, 0) == sent.end();
  if (all) std::ranges::fill(sent, uint8_t{0});
  return absl::OkStatus();
}

absl::Status Client::EndStep(StepReport step) {
  PSGD_RETURN_IF_ERROR(CheckInStep("the end of a step"));
  PSGD_RETURN_IF_ERROR(FinishDevicePushes());
  const Session::Inside inside(&session());
  if (local_step_ + 1 < core().steps()) {
    ++local_step_;
  } else {
    local_step_ = 0;
    Done();
    session().Send();
    pushed_.assign(pushed_.size(), false);
  }
  ++timings_.steps;
  loaded_state_ = std::nullopt;
  const EndpointStats traffic = session().traffic();
  timings_.bytes_pushed = traffic.bytes_sent;
  timings_.bytes_pulled = traffic.bytes_received;
  const double encode = timings_.encode + timings_.install + timings_.copy;
  step.seconds_encode = encode - reported_encode_;
  step.waited = waited_;
  member_.ReportStep(step);
  reported_encode_ = encode;
  waited_ = {};
  return absl::OkStatus();
}

absl::Status Client::Report(EvalResult result) {
  if (!committed_) {
    return OutOfOrder("results before the commit; commit the model before");
  }
  EvaluatedRequest request;
  *request.mutable_key() = member_.key();
  result.set_clock(core().clock());
  *request.mutable_result() = std::move(result);
  return member_.control().Evaluated(request).status();
}

void Client::Note(const std::string& text) {
  heartbeat().Record([&](WorkerReport* report) { report->add_notes(Readable(text)); });
}

ClientTimings Client::timings() const { return timings_; }

absl::Status Client::Leave(bool failed, const std::string& reason) {
  absl::Status status;
  away_.reset();
  if (committed_ && !over_ && !failed && member_.Interrupted().ok()) {
    leaves_ = true;
    status = FinishDevicePushes();
    // A step that began to push ends here: the shards have a part of it.
    const bool in_step = std::holds_alternative<task::Train>(core().task());
    if (in_step && std::ranges::count(pushed_, true) > 0) Done();
    status.Update(Drive(Goal::kEnd, SteadyNow() + kDrainTime));
  }
  member_.Leave(status, {.reason = Readable(reason), .failed = failed, .limit = kFarewell});
  return status;
}

}  // namespace psgd
