#include "client/client.h"

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/call_errors.h"
#include "common/names.h"
#include "common/program_state.h"
#include "common/stopwatch.h"
#include "optimizers/diverged.h"
#include "proto/local_steps.h"

namespace psgd {
namespace {

// A worker that leaves pushes its residual within this time.
constexpr Duration kDrainTime = std::chrono::seconds(30);
constexpr Duration kFarewell = std::chrono::seconds(1);
constexpr Duration kNap = std::chrono::milliseconds(20);
constexpr uint64_t kPartElements = 1u << 20;  // of first weights, in one message
constexpr int kMostGives = 3;                 // servers may change meanwhile
// A worker that leaves gets this much more time for its state.
constexpr size_t kStateBytesPerMs = 10'000;

absl::Status TimeIsUp() { return absl::AbortedError("the time limit has passed"); }

}  // namespace

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
  return absl::OkStatus();
}

absl::Status Client::AddTensor(const ClientTensor& tensor, std::span<const float> first) {
  if (pushes_.committed()) {
    return OutOfOrder("tensor ", tensor.name,
                      " comes after the commit; the run's tensors are fixed when the first worker "
                      "commits: add all tensors before, and start a new run for another model");
  }
  return tensors_.Add(tensor, first);
}

absl::Status Client::Commit(uint64_t samples, uint32_t epochs) {
  if (pushes_.committed()) return OutOfOrder("the model was committed before; commit once");
  if (tensors_.size() == 0) return OutOfOrder("no tensor was added before the commit");
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
  PSGD_RETURN_IF_ERROR(pushes_.MakeEncoder());
  PSGD_RETURN_IF_ERROR(Connect());
  pushes_.Commit();
  return absl::OkStatus();
}

absl::Status Client::RegisterModel(uint64_t samples, uint32_t epochs) {
  RegisterRequest request;
  *request.mutable_key() = member_.key();
  *request.mutable_model() = tensors_.model();
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
  for (uint32_t tensor = 0; tensor < tensors_.size(); ++tensor) {
    const std::span<const float> values = tensors_.weights(tensor);
    for (uint64_t offset = 0; offset < values.size(); offset += kPartElements) {
      const uint64_t count = std::min<uint64_t>(kPartElements, values.size() - offset);
      GiveWeightsRequest part;
      *part.mutable_key() = member_.key();
      part.set_parameter(tensor);
      part.set_offset(offset);
      part.set_values(values.data() + offset, count * sizeof(float));
      PSGD_RETURN_IF_ERROR(member_.control().GiveWeights(part).status());
    }
  }
  return absl::OkStatus();
}

absl::Status Client::Connect() {
  PSGD_RETURN_IF_ERROR(member_.Connect(
      {.encoder = pushes_.encoder(),
       .at_end = WorkerCore::AtEnd::kPull,
       .interrupted = [this] { return SteadyNow() >= until_ ? TimeIsUp() : absl::OkStatus(); },
       .until = [this] { return until_; }}));
  arriving_ = std::make_unique<ArrivingWeights>(
      ArrivingWeights::Options{.codecs = pushes_.codecs(),
                               .model = tensors_.model(),
                               .placement = member_.placement(),
                               .own = factors_,
                               .weights =
                                   [this](int tensor) {
                                     return tensors_.mutable_weights(static_cast<uint32_t>(tensor));
                                   }},
      &core().session(), &session());
  return absl::OkStatus();
}

bool Client::Reached(Goal goal) const {
  if (over_) return true;
  if (std::holds_alternative<task::Train>(core().task())) {
    // A worker that is to leave drops local steps, of which there may be many.
    return goal != Goal::kEnd && (local_step_ == 0 || !core().leaves());
  }
  if (goal != Goal::kWeights) return false;
  if (awaited_ != kAll && arrive_ && arriving_->complete(awaited_)) return true;
  return std::holds_alternative<task::AskSegment>(core().task());
}

absl::Status Client::Drive(Goal goal, Time until) {
  SetAsked();
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
  core().SetAsked(leaves_ || heartbeat().leave_asked().has_value(), heartbeat().drain());
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
  const bool saves = state_.keeps() && !leaves_ && heartbeat().drain();
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
  state_.Load(loaded, run_name(), worker());
  PSGD_RETURN_IF_ERROR(member_.RestoreResiduals(loaded));
  Done();
  return absl::OkStatus();
}

absl::Status Client::Do(const task::SaveState& save) {
  PSGD_RETURN_IF_ERROR(AskForState());
  PSGD_ASSIGN_OR_RETURN(auto states, member_.SaveResiduals());
  if (const auto state = state_.Take()) {
    std::ranges::move(SplitProgramState(*state), std::back_inserter(states));
  }
  core().session().SaveState(save.checkpoint, states, SteadyNow());
  Done();
  return absl::OkStatus();
}

absl::Status Client::AskForState() { return leaves_ ? absl::OkStatus() : state_.Ask(); }

absl::StatusOr<const std::vector<std::byte>*> Client::LoadedState() const {
  if (!segment_) return OutOfOrder("no share was dealt yet; ask for the next share before");
  return state_.loaded();
}

absl::Status Client::Do(const task::BeginSegment& begin) {
  segment_ = begin.segment;
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
    if (const auto state = state_.Take()) {
      limit += Milliseconds(static_cast<int64_t>(state->size() / kStateBytesPerMs));
      core().session().SaveState(0, SplitProgramState(*state), SteadyNow());
    }
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
  if (!pushes_.committed()) return OutOfOrder("the model is not committed; commit it before");
  const auto* train = std::get_if<task::Train>(&core().task());
  if (train != nullptr && !new_share_) {
    const uint64_t steps = segment_->steps().empty() ? 1 : segment_->steps(0);
    const uint64_t ended = (train->clock - 1 - segment_->first_clock()) * steps + local_step_;
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
  PSGD_RETURN_IF_ERROR(tensors_.Check(tensor));
  awaited_ = static_cast<int>(tensor);
  const absl::Status status = Wait(until);
  awaited_ = kAll;
  return status;
}

absl::Status Client::Get(uint32_t tensor, std::span<float> values) {
  PSGD_RETURN_IF_ERROR(tensors_.Check(tensor, values.size()));
  Stopwatch copying(&timings_.copy);
  std::ranges::copy(tensors_.weights(tensor), values.begin());
  return absl::OkStatus();
}

absl::Status Client::CheckInStep(const char* call) const {
  if (!pushes_.committed()) return OutOfOrder(call, " before the commit; commit the model before");
  if (over_) return absl::CancelledError(over_why_);
  if (!segment_) return OutOfOrder(call, " before a share was dealt; ask for the next share");
  if (std::holds_alternative<task::Train>(core().task()) && !new_share_) return absl::OkStatus();
  return OutOfOrder(call, " outside of a step: ",
                    std::holds_alternative<task::AskSegment>(core().task())
                        ? "the share has no step left; ask for the next share"
                        : "the weights of the next step are not here; wait for them");
}

absl::Status Client::CheckMayPush() const {
  PSGD_ASSIGN_OR_RETURN(const bool exchanges, Exchanges());
  if (exchanges) return absl::OkStatus();
  return OutOfOrder(
      "a push in a local step: only the step that ends with an exchange has one "
      "(local.steps of the run's config); ask psgd_exchanges before");
}

absl::StatusOr<bool> Client::Exchanges() const {
  PSGD_RETURN_IF_ERROR(CheckInStep("a step"));
  return local_step_ + 1 >= core().steps();
}

absl::Status Client::EndStep(StepReport step) {
  PSGD_RETURN_IF_ERROR(CheckInStep("the end of a step"));
  PSGD_RETURN_IF_ERROR(pushes_.Finish());
  const Session::Inside inside(&session());
  if (local_step_ + 1 < core().steps()) {
    ++local_step_;
  } else {
    local_step_ = 0;
    Done();
    session().Send();
    pushes_.EndStep();
  }
  ++timings_.steps;
  state_.ForgetLoaded();
  const EndpointStats traffic = session().traffic();
  timings_.bytes_pushed = traffic.bytes_sent;
  timings_.bytes_pulled = traffic.bytes_received;
  const double encode = timings_.encode + timings_.install + timings_.copy;
  step.seconds_encode = encode - reported_encode_;
  step.waited = waited_;
  member_.ReportStep(step);
  if (local_step_ == 0 && TakesLocalSteps(member_.config().local())) member_.KeepLocalSteps();
  reported_encode_ = encode;
  waited_ = {};
  return absl::OkStatus();
}

absl::Status Client::Report(EvalResult result) {
  if (!pushes_.committed()) {
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

absl::Status Client::Leave(bool failed, const std::string& reason) {
  absl::Status status;
  away_.reset();
  if (pushes_.committed() && !over_ && !failed && member_.Interrupted().ok()) {
    leaves_ = true;
    status = pushes_.Finish();
    // A step that began to push ends here: the shards have a part of it.
    const bool in_step = std::holds_alternative<task::Train>(core().task());
    if (in_step && pushes_.any()) Done();
    status.Update(Drive(Goal::kEnd, SteadyNow() + kDrainTime));
  }
  member_.Leave(status, {.reason = Readable(reason), .failed = failed, .limit = kFarewell});
  return status;
}

}  // namespace psgd
