#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/cpu_time.h"
#include "common/program_state.h"
#include "common/stopwatch.h"
#include "common/units.h"
#include "compression/policy.h"
#include "engine/onnx/check.h"
#include "optimizers/diverged.h"
#include "proto/local_steps.h"
#include "proto/measure_of.h"
#include "proto/micro_batch.h"
#include "train/evaluate.h"
#include "train/factor_layers.h"
#include "train/network_data.h"
#include "train/step_clock.h"

namespace psgd {
namespace {

constexpr int kAllWeights = -1;  // in place of a parameter

// To say goodbye when there is no time left.
constexpr Duration kGoodbye = std::chrono::seconds(1);

StepBatch StepBatchOf(const Batch& batch, bool staged) {
  return {{batch.pixels, batch.tokens, batch.values}, batch.labels, staged, batch.targets};
}

}  // namespace

Trainer::Trainer(TrainerOptions options)
    : options_(std::move(options)),
      member_({.server = options_.server,
               .find = options_.find_servers,
               .name = options_.name,
               .replaces = options_.replaces,
               .device = DeviceText(options_),
               .credentials = options_.credentials,
               .connect_deadline = options_.connect_deadline,
               .interrupted = [this] { return StopsAtOnce(); },
               .log = options_.log}),
      progress_log_(options_.log) {}

absl::Status Trainer::StopsAtOnce() const {
  if (options_.stops != nullptr && *options_.stops >= 2) return absl::CancelledError("stopped");
  if (Asked() && !member_.keeps_lease()) return absl::CancelledError("stopped before it joined");
  if (Asked() && DrainTimeLeft() <= Duration::zero()) {
    return absl::CancelledError("asked to stop, and --drain-deadline has passed");
  }
  return absl::OkStatus();
}

absl::Status Trainer::Run() {
  absl::Status status = Prepare();
  if (status.ok()) status = Train();
  Leave(status);
  if (absl::IsCancelled(status)) return absl::OkStatus();
  return status;
}

absl::Status Trainer::Prepare() {
  PSGD_RETURN_IF_ERROR(member_.Join());
  if (config().model().has_client()) {
    return FailedPreconditionError(
        "the run ", member_.joined().run_name(),
        " is of programs that bring their model (model: client), and ps-worker has none; start "
        "such a program in place of ps-worker, as ps-run CONFIG.yaml -- python3 train.py does");
  }
  member_.KeepLease();

  PSGD_ASSIGN_OR_RETURN(const DataConfig data, DataOf(config()));
  PSGD_ASSIGN_OR_RETURN(data_, options_.open_data(data, config().seed()));
  // No error: perhaps the run goes on, and an earlier version began it.
  PSGD_ASSIGN_OR_RETURN(const PaddingNote padding, CheckPadding(config(), *data_));
  if (!padding.text.empty()) options_.log->warn("{}", padding.text);
  for (const absl::string_view note : absl::StrSplit(data_->note, '\n', absl::SkipEmpty())) {
    options_.log->info("{}", std::string(note));
  }
  std::vector<NetworkOptions> networks = NetworksOf(options_);
  for (NetworkOptions& network : networks) {
    network.seed = config().seed();
    network.worker = member_.key().worker();
    network.factors = FactorLayers(
        config(), networks.size() * static_cast<size_t>(PartsOfBatch(config().data())));
  }
  PSGD_ASSIGN_OR_RETURN(
      network_,
      Replicas::Create(
          config().model(), data_->shape, MicroBatchOf(config().data()), networks,
          config().node().reduce() == NodeConfig::NCCL ? ReduceOn::kDevices : ReduceOn::kHost,
          PartsOfBatch(config().data())));
  PSGD_ASSIGN_OR_RETURN(const OnnxFacts onnx, FactsOfOnnx(config().model()));
  for (const std::string& note : onnx.check.notes) options_.log->info("{}", note);
  loader_ = std::make_unique<BatchLoader>(
      data_->train, BatchLoaderOptions{
                        .batch = config().data().batch(),
                        // A thread that may not begin a batch would be idle.
                        .prefetch = std::max(config().data().prefetch(), config().data().threads()),
                        .threads = config().data().threads(),
                        .seed = config().seed()});

  RegisterRequest request;
  *request.mutable_key() = member_.key();
  *request.mutable_model() = network_->spec();
  *request.mutable_model()->mutable_preparation() = data_->preparation;
  request.set_train_samples(data_->train->size());
  request.set_batches_per_epoch(loader_->batches_per_epoch());
  PSGD_ASSIGN_OR_RETURN(const RegisterReply registered, member_.control().Register(request));
  member_.Registered(registered, loader_->batches_per_epoch());
  const std::string left_out = LeftOutText(config().compression(), network_->spec());
  if (!left_out.empty()) options_.log->info("{}", left_out);
  pushes_.emplace(network_.get(), &member_);
  PSGD_RETURN_IF_ERROR(pushes_->MakeEncoder(networks[0]));
  PSGD_RETURN_IF_ERROR(PrepareAhead());

  trace_.Begin(member_.joined().trace_steps(), member_.key().worker());
  if (!options_.push_log.empty()) {
    PSGD_ASSIGN_OR_RETURN(push_log_, PushLog::Open(options_.push_log));
  }
  PSGD_RETURN_IF_ERROR(member_.Connect(
      {.encoder = pushes_->encoder(),
       .on_acknowledged = [this](const Message& push, Time sent) { Acknowledged(push, sent); }}));
  if (TakesLocalSteps(config().local())) {
    PSGD_ASSIGN_OR_RETURN(Network* const device, DeviceOfLocalSteps(networks.size()));
    if (config().local().optimizer().has_muon()) {
      const auto& matrices = network_->hidden_matrices();
      options_.log->info("muon moves {} of {} parameters as matrices, the others as adamw",
                         std::ranges::count(matrices, true), matrices.size());
    }
    local_ = std::make_unique<LocalSteps>(LocalSteps::Options{
        .config = config(),
        .model = network_->spec(),
        .placement = member_.placement(),
        .fragments = core().session().fragments(),
        .matrices = network_->hidden_matrices(),
        .weights = [this](int parameter) { return network_->parameter(parameter); },
        .wrote = [this] { network_->InvalidateParameters(); },
        .gradient = [this](int p,
                           std::vector<float>* room) { return pushes_->GradientOf(p, room); },
        .device = device,
        .threads = device == nullptr ? options_.threads : 1});
  }
  const auto traced = [this](TraceSpan::Kind kind) {
    return [this, kind](Time start, Time end) { trace_.Add(kind, arriving_for_, start, end); };
  };
  weights_ = std::make_unique<ArrivingWeights>(
      ArrivingWeights::Options{.codecs = codecs_,
                               .model = network_->spec(),
                               .placement = member_.placement(),
                               .own = pushes_->factors(),
                               .weights = [this](int parameter) { return Installed(parameter); },
                               .on_waited = traced(TraceSpan::PULL),
                               .on_installed = traced(TraceSpan::INSTALL)},
      &core().session(), &session());
  return absl::OkStatus();
}

absl::StatusOr<Network*> Trainer::DeviceOfLocalSteps(size_t replicas) {
  if (options_.gpus.empty()) return nullptr;
  Network* const network = network_->device_network();
  int arrays = 0;
  bool orthogonal = false;
  std::string why;
  if (replicas > 1) {
    why = "several GPUs train together";
  } else if (network == nullptr) {
    why = "of data.micro_batch";
  } else if (!LocalSteps::CanUseDevice(config().local().optimizer(), &arrays, &orthogonal)) {
    why = "it needs norms of tensors";
  } else if (const absl::Status kept = network->KeepStates(arrays, orthogonal); kept.ok()) {
    options_.log->info("the local optimizer runs on the GPU");
    return network;
  } else if (absl::IsResourceExhausted(kept)) {
    why = "the GPU's memory is full";
  } else {
    return kept;
  }
  options_.log->info("the local optimizer runs on the host, because {}", why);
  return nullptr;
}

absl::Status Trainer::Train() {
  while (true) {
    PSGD_RETURN_IF_ERROR(member_.Interrupted());
    const WorkerTask now = core().task();
    PSGD_RETURN_IF_ERROR(std::visit([this](const auto& task) { return Do(task); }, now));
    if (std::holds_alternative<task::Leave>(now)) return absl::OkStatus();
    session().Send();
  }
}

void Trainer::TellAsked() { core().SetAsked(Asked(), heartbeat().drain()); }

void Trainer::Done() {
  TellAsked();
  core().Done(SteadyNow());
}

absl::Status Trainer::Do(const task::AskSegment& ask) {
  PSGD_ASSIGN_OR_RETURN(const NextSegmentReply next, member_.AskSegment(ask));
  TellAsked();
  core().OnSegment(next, SteadyNow());
  return absl::OkStatus();
}

absl::Status Trainer::Do(const task::Pause& pause) {
  if (pause.reason != waiting_for_) options_.log->info("{}", pause.reason);
  waiting_for_ = pause.reason;
  // A worker with local steps stays for the last checkpoint, which keeps its optimizer.
  const bool saves = local_ && local_->begun() && heartbeat().drain();
  if (pause.leaves && !saves) {
    PSGD_ASSIGN_OR_RETURN(const bool leaves, member_.LeaveWithoutResidual());
    if (leaves) return absl::OkStatus();
  }
  std::this_thread::sleep_for(pause.duration);
  Done();
  return absl::OkStatus();
}

absl::Status Trainer::Do(const task::Await& await) {
  const auto advanced = [this] { return core().Advance(SteadyNow()); };
  if (await.what != task::Await::kWeights) return session().WaitUntil(advanced);
  arriving_for_ = await.clock + 1;
  if (core().session().pulls_aside()) KeepWeights();
  weights_->Begin();
  if (local_) {
    if (core().step_follows() && local_->begun() && config().local().delay() > 0) {
      return StepLocally(await.clock + 1, BringArriving());
    }
    PSGD_RETURN_IF_ERROR(OfWeights(weights_->AwaitAll()));
  } else if (weights_ahead_ == nullptr || !weights_ahead_->begun()) {
    if (core().step_follows() && network_->waits_by_parameter()) {
      PSGD_ASSIGN_OR_RETURN(const bool here, NextBatchIsHere());
      if (here) return Step(await.clock + 1, BringArriving());
    }
    PSGD_RETURN_IF_ERROR(OfWeights(weights_->AwaitAll()));
  }
  return session().WaitUntil(advanced);
}

absl::Status Trainer::Do(const task::RestoreState&) {
  const std::map<uint32_t, Bytes> loaded = core().session().TakeLoadedState();
  if (local_) {
    const auto saved = JoinProgramState(loaded);
    bool restored = false;
    if (saved) {
      PSGD_ASSIGN_OR_RETURN(restored, local_->Restore(*saved, member_.key().worker()));
    }
    if (!restored) {
      Warn(absl::StrCat(
          "the local optimizer begins anew: the checkpoint ",
          saved ? "has its state for other local.* keys" : "has no complete state of a worker"));
    }
  }
  PSGD_RETURN_IF_ERROR(member_.RestoreResiduals(loaded));
  Done();
  return absl::OkStatus();
}

absl::Status Trainer::Do(const task::SaveState& save) {
  PSGD_ASSIGN_OR_RETURN(auto states, member_.SaveResiduals());
  PSGD_RETURN_IF_ERROR(AddLocalState(&states));
  core().session().SaveState(save.checkpoint, states, SteadyNow());
  Done();
  return absl::OkStatus();
}

absl::Status Trainer::Do(const task::BeginSegment& begin) {
  cpu_seconds_ = ProcessCpuSeconds();
  segment_ = begin.segment;
  segment_->clear_batches();
  if (local_) local_->Begin(begin.segment.first_clock());
  for (const uint32_t batch : begin.segment.batches()) {
    loader_->Enqueue(begin.segment.epoch(), batch);
  }
  Done();
  return absl::OkStatus();
}

absl::Status Trainer::Do(const task::Install& install) {
  if (weights_ahead_ != nullptr && weights_ahead_->begun()) {
    StepClock finishing(&took_.seconds_encode, &trace_, TraceSpan::INSTALL, install.clock + 1);
    PSGD_RETURN_IF_ERROR(OfWeights(weights_ahead_->Finish()));
  } else if (!local_) {
    network_->InvalidateParameters();
  }
  if (local_ && install.for_step) PSGD_RETURN_IF_ERROR(local_->Take(install.clock));
  took_.waited += PartsOfWait(weights_->waited(), core().session().last_answer());
  took_.seconds_encode += weights_->installing();
  core().session().TakePulled();
  // A pull that was sent ahead may lack the step before. After an evaluation aside the
  // worker goes on with its own weights, which lack more.
  if (install.clock > 0 && !core().session().pulls_aside()) {
    pushes_->factors().Forget(install.clock - 1);
  }
  if (install.for_step) {
    Stopwatch choosing(&took_.seconds_encode);
    PSGD_RETURN_IF_ERROR(member_.autotune().BetweenSteps(install.clock));
  }
  Done();
  return absl::OkStatus();
}

absl::Status Trainer::Do(const task::Report& report) {
  // A server that hangs must not take more time than there is.
  if (Asked()) {
    member_.control().SetDeadline(
        std::min(Milliseconds(config().cluster().deadline()), std::max(DrainTimeLeft(), kGoodbye)));
  }
  progress_log_.ReportDamage(data_->damage.get());
  PSGD_RETURN_IF_ERROR(member_.Report(report));
  Done();
  return absl::OkStatus();
}

absl::Status Trainer::OfWeights(absl::Status status) const {
  if (!absl::IsOutOfRange(status)) return status;
  return OutOfRangeError(WeightsDivergedText(config(), status.message()));
}

absl::Status Trainer::Do(const task::Train& train) {
  session().Send();  // the pull of the next weights leaves before this step computes
  return local_ ? StepLocally(train.clock, nullptr) : Step(train.clock, nullptr);
}

Trainer::Bring Trainer::BringArriving() {
  return [this](int parameter) -> absl::Status {
    PSGD_RETURN_IF_ERROR(
        OfWeights(parameter == kAllWeights ? weights_->AwaitAll() : weights_->Await(parameter)));
    if (!core().Advance(SteadyNow())) return absl::OkStatus();
    // The step that computes is the task from now on.
    PSGD_RETURN_IF_ERROR(Do(std::get<task::Install>(WorkerTask(core().task()))));
    session().Send();
    return absl::OkStatus();
  };
}

absl::Status Trainer::Step(uint64_t clock, const Bring& bring) {
  const bool staged = ahead_.has_value();
  PSGD_ASSIGN_OR_RETURN(const Batch batch, NextBatch(clock, /*another=*/false));
  if (options_.step_delay.count() > 0) std::this_thread::sleep_for(options_.step_delay);

  pushes_->BeginStep(clock);
  double encoding = 0, bringing = 0;
  const Time start = SteadyNow();
  Time computes_since = start;
  const auto brought = [&](int parameter) -> absl::Status {
    if (!std::holds_alternative<task::Await>(core().task())) return absl::OkStatus();
    const Session::Inside inside(&session());
    const double waited = weights_->waited();
    const Time asked = SteadyNow();
    const absl::Status status = bring(parameter);
    const Time now = SteadyNow();
    bringing += Seconds(now - asked);
    if (weights_->waited() > waited) {
      trace_.Add(TraceSpan::COMPUTE, clock, computes_since, asked);
      computes_since = now;
    }
    return status;
  };
  absl::Status pushed;
  const auto push = [&](int parameter) {
    // Weights that no kernel reads are not awaited before.
    if (bring && pushed.ok()) pushed = brought(kAllWeights);
    // A GPU's part of the encoding cannot be told from its computing, and counts as computing.
    double waiting = 0;
    Stopwatch timer(pushes_->encoder()->on_device()[parameter] ? &waiting : &encoding);
    if (pushed.ok()) pushed = pushes_->TakeGradient(parameter);
  };
  const StepBatch now = StepBatchOf(batch, staged);
  const StepBatch next = ahead_ ? StepBatchOf(*ahead_, false) : now;
  BesideStep beside;
  beside.next = ahead_ ? &next : nullptr;
  if (weights_ahead_ != nullptr && core().pulled_ahead())
    beside.meanwhile = [this] { return InstallAhead(); };
  if (bring) {
    beside.bring = brought;
    network_->InvalidateParameters();
  }
  const auto compute = [&] {
    const Session::Away away(&session());
    return network_->TrainStep(now, clock, push, beside);
  };
  PSGD_ASSIGN_OR_RETURN(const Network::Result result, compute());
  PSGD_RETURN_IF_ERROR(pushed);
  Done();  // ends the clock
  session().Send();
  const Time end = SteadyNow();
  took_.seconds_compute += Seconds(end - start) - encoding - bringing;
  took_.seconds_encode += encoding;
  trace_.Add(TraceSpan::COMPUTE, clock, computes_since, end);
  return ReportStep(clock, clock, result);
}

absl::Status Trainer::StepLocally(uint64_t clock, const Bring& bring) {
  const uint64_t most = segment_->most_steps();
  const double epochs_per_step = segment_->epochs_per_clock() / segment_->steps(0);
  const double begin =
      segment_->epoch_at_start() +
      static_cast<double>(clock - 1 - segment_->first_clock()) * segment_->epochs_per_clock();
  const uint64_t steps = core().steps();
  // A worker with fewer steps delays the same share of its steps, and so does a short clock.
  const uint64_t delay = std::min<uint64_t>(config().local().delay(), most - 1) * steps / most;
  const auto waits = [&] { return std::holds_alternative<task::Await>(core().task()); };
  for (uint64_t i = 0; i < steps; ++i) {
    PSGD_RETURN_IF_ERROR(member_.Interrupted());
    if (waits()) {
      PSGD_RETURN_IF_ERROR(i < delay ? OfWeights(weights_->InstallWhatCame()) : bring(kAllWeights));
    }
    if (!waits() && GaveUpLocalSteps()) return absl::OkStatus();
    // A worker that takes fewer steps than the fastest leaves numbers out.
    PSGD_RETURN_IF_ERROR(LocalStep(
        clock,
        {.epoch = begin + static_cast<double>(i) * epochs_per_step,
         .step = segment_->first_step() + (clock - 1 - segment_->first_clock()) * most + i,
         .epochs_per_step = epochs_per_step,
         .total_epochs = static_cast<double>(config().train().epochs())},
        i + 1 < steps));
  }
  if (waits()) PSGD_RETURN_IF_ERROR(bring(kAllWeights));
  {
    Stopwatch encoding(&took_.seconds_encode);
    PSGD_RETURN_IF_ERROR(pushes_->PushChanges(clock, local_.get()));
  }
  member_.KeepLocalSteps();
  Done();  // ends the clock
  session().Send();
  return absl::OkStatus();
}

absl::Status Trainer::LocalStep(uint64_t clock, const ScheduleTime& time, bool another) {
  const bool staged = ahead_.has_value();
  PSGD_ASSIGN_OR_RETURN(const Batch batch, NextBatch(clock, another));
  const Time start = SteadyNow();
  if (options_.step_delay.count() > 0) std::this_thread::sleep_for(options_.step_delay);
  const StepBatch now = StepBatchOf(batch, staged);
  const StepBatch next = ahead_ ? StepBatchOf(*ahead_, false) : now;
  BesideStep beside;
  beside.next = ahead_ ? &next : nullptr;
  GradientClip* const clip = pushes_->clip();
  const auto compute = [&]() -> absl::StatusOr<Network::Result> {
    const Session::Away away(&session());
    std::function<void(int)> on_gradient;
    if (clip != nullptr && !local_->on_device()) {
      on_gradient = [&](int parameter) { clip->Add(parameter, network_->gradient(parameter)); };
    }
    auto result = network_->TrainStep(now, time.step + 1, on_gradient, beside);
    if (result.ok()) PSGD_RETURN_IF_ERROR(local_->Step(time));
    return result;
  };
  PSGD_ASSIGN_OR_RETURN(const Network::Result result, compute());
  if (clip != nullptr) clip->EndStep();
  const Time end = SteadyNow();
  took_.seconds_compute += Seconds(end - start);
  trace_.Add(TraceSpan::COMPUTE, clock, start, end);
  return ReportStep(clock, time.step + 1, result);
}

bool Trainer::GaveUpLocalSteps() {
  TellAsked();
  if (!core().leaves()) return false;
  core().GiveUpStep(SteadyNow());
  return true;
}

absl::Status Trainer::AddLocalState(std::vector<std::pair<uint32_t, Bytes>>* states) {
  if (!local_ || !local_->begun()) return absl::OkStatus();
  if (local_->SavedBytes() > kMostProgramState) {
    Warn(absl::StrCat("the state of a worker's local optimizer has ",
                      HumanBytes(static_cast<double>(local_->SavedBytes())),
                      ", and checkpoints keep at most ",
                      HumanBytes(static_cast<double>(kMostProgramState)),
                      " of a worker: they have none, and a run that goes on from them begins with "
                      "a new one"));
    return absl::OkStatus();
  }
  PSGD_ASSIGN_OR_RETURN(Bytes saved, local_->Save(member_.key().worker(), core().clock()));
  std::ranges::move(SplitProgramState(std::move(saved)), std::back_inserter(*states));
  return absl::OkStatus();
}

void Trainer::Warn(const std::string& text) {
  options_.log->warn("{}", text);
  heartbeat().Record([&](WorkerReport* report) { report->add_notes(text); });
}

// A step that would wait for its batch, or for its --step-delay, reads its messages first.
absl::StatusOr<bool> Trainer::NextBatchIsHere() {
  if (ahead_ || options_.step_delay.count() > 0) return ahead_.has_value();
  if (auto ready = loader_->NextIfReady()) {
    PSGD_ASSIGN_OR_RETURN(ahead_, *std::move(ready));
  }
  return ahead_.has_value();
}

absl::StatusOr<Batch> Trainer::NextBatch(uint64_t clock, bool another) {
  StepClock loading(&took_.seconds_data, &trace_, TraceSpan::DATA, clock);
  Batch batch;
  if (ahead_) {
    batch = *std::exchange(ahead_, std::nullopt);
  } else {
    PSGD_ASSIGN_OR_RETURN(batch, loader_->Next());
  }
  // Not waited for: this step goes on without.
  if (!network_->stages() || !(another || core().batch_follows())) return batch;
  if (auto ready = loader_->NextIfReady()) {
    PSGD_ASSIGN_OR_RETURN(ahead_, *std::move(ready));
  }
  return batch;
}

std::span<float> Trainer::Installed(int parameter) {
  return local_ ? local_->shards(parameter) : network_->parameter(parameter);
}

void Trainer::KeepWeights() {
  for (int p = 0; p < network_->spec().parameters_size(); ++p) {
    const std::span<const float> weights = Installed(p);
    kept_weights_.emplace_back(weights.begin(), weights.end());
  }
}

void Trainer::PutBackWeights() {
  for (size_t p = 0; p < kept_weights_.size(); ++p) {
    std::ranges::copy(kept_weights_[p], Installed(static_cast<int>(p)).begin());
  }
  kept_weights_.clear();
}

absl::Status Trainer::Do(const task::Evaluate& evaluate) {
  if (local_) PSGD_RETURN_IF_ERROR(local_->ShowShards());
  EvaluationBatches batches(data_->test, network_->batch());
  EvaluatedRequest request;
  *request.mutable_key() = member_.key();
  PSGD_ASSIGN_OR_RETURN(*request.mutable_result(),
                        Evaluate(*network_, batches, data_->targets, config().model().loss(),
                                 config().data().threads()));
  if (local_) local_->ShowOwn();
  PutBackWeights();
  if (!local_) network_->InvalidateParameters();
  progress_log_.ReportDamage(data_->damage.get());
  request.mutable_result()->set_epoch(evaluate.epoch);
  request.mutable_result()->set_clock(evaluate.clock);
  options_.log->info("after epoch {:.4g}: test {} on {} samples in {:.1f} s", evaluate.epoch,
                     ResultText(request.result()), request.result().samples(),
                     request.result().seconds());
  PSGD_RETURN_IF_ERROR(member_.control().Evaluated(request).status());
  Done();
  return absl::OkStatus();
}

namespace {
// How long a thread that waits for a GPU leaves its messages alone, while weights are to come.
constexpr Duration kAheadPause = std::chrono::microseconds(100);
}  // namespace

absl::Status Trainer::PrepareAhead() {
  if (options_.gpus.empty() || !config().consistency().pull_ahead()) return absl::OkStatus();
  const absl::Status room = network_->MakeRoomAhead();
  if (absl::IsResourceExhausted(room)) {
    options_.log->info(
        "weights pulled ahead reach the GPU between the steps: a second copy of them there takes "
        "{}",
        std::string(room.message()));
    return absl::OkStatus();
  }
  PSGD_RETURN_IF_ERROR(room);
  weights_ahead_ = std::make_unique<WeightsAhead>(codecs_, member_.placement(), network_.get());
  return absl::OkStatus();
}

bool Trainer::InstallAhead() {
  if (!session().PullCame()) {
    std::this_thread::sleep_for(kAheadPause);
    return true;
  }
  const Session::Inside inside(&session());
  weights_ahead_->Begin(core().session().pulled(), pushes_->factors());
  return false;
}

bool Trainer::Asked() const {
  const bool process = options_.stops != nullptr && *options_.stops > 0;
  return process || (member_.keeps_lease() && heartbeat().leave_asked());
}

Duration Trainer::DrainTimeLeft() const {
  if (options_.stops != nullptr && *options_.stops > 0) {
    if (options_.stop_asked == nullptr) return Duration::max();
    return options_.drain_deadline - (SteadyNow() - options_.stop_asked->load());
  }
  return options_.drain_deadline - (SteadyNow() - *heartbeat().leave_asked());
}

absl::Status Trainer::Do(const task::GiveResidual& give) {
  if (local_ && heartbeat().drain()) {
    std::vector<std::pair<uint32_t, Bytes>> states;
    PSGD_RETURN_IF_ERROR(AddLocalState(&states));
    core().session().SaveState(0, states, SteadyNow());
  }
  PSGD_ASSIGN_OR_RETURN(const GivenResidual given, member_.GiveResidual(give));
  if (!given.pushed.ok()) {
    const std::string what =
        absl::StrCat("asked to stop, but of its residual, of norm ", given.norm, ", norm ",
                     given.norm_left, " was not pushed: ", given.pushed.message());
    options_.log->warn("{}", what);
    return absl::Status(given.pushed.code(), what);
  }
  gave_ =
      given.any ? absl::StrCat("pushed its residual, of norm ", given.norm) : "with no residual";
  return absl::OkStatus();
}

absl::Status Trainer::Do(const task::Leave& leave) {
  switch (leave.why) {
    case task::Leave::kRunIsOver:
      options_.log->info("done after {} steps: {}", progress_log_.all_steps(), leave.reason);
      return absl::OkStatus();
    case task::Leave::kAskedBeforeFirstStep:
      // What it loaded, and never pushed, stays on the shards for the worker that takes its place.
      member_.SetResidualNormLeft(0);
      return absl::CancelledError("asked to stop before its first step");
    case task::Leave::kAskedWhileWaiting:
      return absl::CancelledError("stopped while waiting");
    case task::Leave::kGaveResidual:
      break;
  }
  const std::string what = absl::StrCat("asked to stop after ", local_ ? "clock " : "step ",
                                        core().clock(), "; ", gave_);
  options_.log->info("{}", what);
  return absl::CancelledError(what);
}

void Trainer::NoteResidualLeft(const absl::Status& status) {
  if (member_.residual_norm_left() || !pushes_ || pushes_->encoder() == nullptr) return;
  const absl::StatusOr<double> norm = pushes_->encoder()->ResidualNorm();
  if (!norm.ok()) return;
  member_.SetResidualNormLeft(*norm);
  // If the run is over, its last checkpoint has the residual.
  if (*norm > 0 && !status.ok()) {
    options_.log->warn("leaves without having pushed its residual, of norm {}", *norm);
  }
}

void Trainer::Leave(const absl::Status& status) {
  if (loader_) loader_->Cancel();
  NoteResidualLeft(status);
  Member::Farewell farewell{
      .reason = status.ok() ? "the run is over" : std::string(status.message()),
      .failed = !status.ok() && !absl::IsCancelled(status)};
  if (Asked()) farewell.limit = std::max(DrainTimeLeft(), kGoodbye);
  member_.Leave(status, farewell);
}

void Trainer::Acknowledged(const Message& push, Time sent) {
  if (push_log_) push_log_->Acknowledged(push);
  trace_.AddPush(push.header, sent, SteadyNow());
}

absl::Status Trainer::ReportStep(uint64_t clock, uint64_t step, const Network::Result& result) {
  progress_log_.ReportLaunches(clock, result, *network_, !options_.gpus.empty());
  if (!std::isfinite(result.loss_sum)) {
    return OutOfRangeError(DivergedText(config()), ". The loss is not a finite number at step ",
                           step);
  }
  const double cpu_before = std::exchange(cpu_seconds_, ProcessCpuSeconds());
  took_.samples = result.counted;
  took_.correct = result.correct;
  took_.loss_sum = result.loss_sum;
  member_.ReportStep(took_, [&](WorkerReport* report) {
    report->set_seconds_cpu(report->seconds_cpu() +
                            (cpu_seconds_ - cpu_before) / options_.workers_here);
    trace_.MoveTo(report);
  });
  const Waited& waited = took_.waited;
  progress_log_.Add(clock, result.counted, result.loss_sum,
                    took_.seconds_data + waited.wait + waited.wire + waited.apply, SteadyNow());
  took_ = {};
  return absl::OkStatus();
}

}  // namespace psgd
