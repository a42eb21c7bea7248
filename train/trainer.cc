#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/cpu_time.h"
#include "common/program_state.h"
#include "common/stopwatch.h"
#include "common/units.h"
#include "compression/policy.h"
#include "engine/onnx/import.h"
#include "net/wire_format.h"
#include "proto/local_steps.h"
#include "proto/micro_batch.h"
#include "train/device_codecs.h"
#include "train/evaluate.h"
#include "train/factor_layers.h"
#include "train/step_clock.h"
#include "worker/factor_pushes.h"
#include "worker/give_residual.h"
#include "worker/member_security.h"

namespace psgd {
namespace {

constexpr char kDiverged[] =
    "training diverged: lower the learning rate (optimizer, or local.optimizer), add a warm-up "
    "(schedule, or local.schedule), or lower consistency.staleness. The last checkpoint is "
    "unharmed";

// The norm takes a pass over all residuals, which may lie on a GPU.
constexpr Duration kResidualPeriod = std::chrono::seconds(5);

constexpr int kAllWeights = -1;  // in place of a parameter

// To say goodbye when there is no time left.
constexpr Duration kGoodbye = std::chrono::seconds(1);

StepBatch StepBatchOf(const Batch& batch, bool staged) {
  return {{batch.pixels, batch.tokens, batch.values}, batch.labels, staged, batch.targets};
}

// Whether the server may send updates in place of weights, for which a worker needs its own.
bool PullsUpdates(const Config& config) {
  return config.compression().pull().has_delta() &&
         !config.compression().pull().delta().has_codec();
}

}  // namespace

Trainer::Trainer(TrainerOptions options)
    : options_(std::move(options)), progress_log_(options_.log) {}

Trainer::~Trainer() { closing_ = true; }

absl::Status Trainer::Interrupted() const {
  if (closing_ || (options_.stops != nullptr && *options_.stops >= 2)) {
    return absl::CancelledError("stopped");
  }
  if (Asked() && DrainTimeLeft() <= Duration::zero()) {
    return absl::CancelledError("asked to stop, and --drain-deadline has passed");
  }
  return heartbeat_ ? heartbeat_->status() : absl::OkStatus();
}

absl::Status Trainer::Run() {
  absl::Status status = Prepare();
  if (status.ok()) status = Train();
  Leave(status);
  if (absl::IsCancelled(status)) return absl::OkStatus();
  return status;
}

absl::Status Trainer::Prepare() {
  client_ = std::make_unique<ControlClient>(
      ControlClientOptions{.server = options_.server,
                           .find = options_.find_servers,
                           .deadline = options_.connect_deadline,
                           .interrupted = [this] { return Interrupted(); },
                           .credentials = options_.credentials});
  JoinRequest join;
  join.set_name(options_.name);
  join.set_device(DeviceText(options_));
  join.set_protocol(kProtocolVersion);
  join.set_local_steps(true);
  const CurveKeys curve = MakeCurveKeys();
  join.set_curve_key(curve.public_key);
  PSGD_ASSIGN_OR_RETURN(const JoinReply joined, client_->Join(join));
  key_ = joined.key();
  config_ = joined.config();
  client_->SetDeadline(Milliseconds(config_.cluster().deadline()));
  client_->SetToken(joined.token());
  options_.log->info("joined {} at {} as worker {}, incarnation {}", joined.run_name(),
                     options_.server, key_.worker(), key_.incarnation());
  if (config_.model().has_client()) {
    return FailedPreconditionError(
        "the run ", joined.run_name(),
        " is of programs that bring their model (model: client), and ps-worker has none; start "
        "such a program in place of ps-worker, as ps-run CONFIG.yaml -- python3 train.py does");
  }
  heartbeat_ = std::make_unique<Heartbeat>(client_.get(), joined, options_.log);
  heartbeat_->Start();

  PSGD_ASSIGN_OR_RETURN(data_, options_.open_data(config_.data(), config_.seed()));
  std::vector<NetworkOptions> networks = NetworksOf(options_);
  for (NetworkOptions& network : networks) {
    network.seed = config_.seed();
    network.worker = key_.worker();
    network.factors =
        FactorLayers(config_, networks.size() * static_cast<size_t>(PartsOfBatch(config_.data())));
  }
  PSGD_ASSIGN_OR_RETURN(
      network_,
      Replicas::Create(
          config_.model(), InputShapeOf(data_->shape), MicroBatchOf(config_.data()), networks,
          config_.node().reduce() == NodeConfig::NCCL ? ReduceOn::kDevices : ReduceOn::kHost,
          PartsOfBatch(config_.data())));
  PSGD_ASSIGN_OR_RETURN(const std::string held, HeldFixedText(config_.model()));
  if (!held.empty()) options_.log->info("{}: {}", config_.model().onnx(), held);
  loader_ = std::make_unique<BatchLoader>(
      data_->train,
      BatchLoaderOptions{.batch = config_.data().batch(),
                         // A thread that may not begin a batch would be idle.
                         .prefetch = std::max(config_.data().prefetch(), config_.data().threads()),
                         .threads = config_.data().threads(),
                         .seed = config_.seed()});

  RegisterRequest request;
  *request.mutable_key() = key_;
  *request.mutable_model() = network_->spec();
  request.set_train_samples(data_->train->size());
  request.set_batches_per_epoch(loader_->batches_per_epoch());
  // Each of the workers takes a batch in a step.
  const auto batches = static_cast<double>(loader_->batches_per_epoch());
  *config_.mutable_compression() =
      InSteps(config_.compression(), batches / std::max(1, config_.cluster().workers()));
  PSGD_ASSIGN_OR_RETURN(const RegisterReply registered, client_->Register(request));
  placement_ = registered.placement();
  const std::vector<std::string> shards(placement_.endpoints().begin(),
                                        placement_.endpoints().end());
  heartbeat_->SetEndpoints(shards);
  heartbeat_->SetHyper(registered.hyper());
  for (const SliceSpec& slice : placement_.slices()) dense_bytes_ += slice.count() * sizeof(float);
  PSGD_RETURN_IF_ERROR(PrepareEncoder(networks[0]));
  PSGD_RETURN_IF_ERROR(PrepareAhead());

  TransportOptions transport;
  transport.log = options_.log;
  transport.security = MemberSecurity(options_.credentials, options_.server, curve, joined);
  PSGD_ASSIGN_OR_RETURN(transport_, MakeTransport(config_.cluster().transport(), transport));
  PSGD_ASSIGN_OR_RETURN(std::unique_ptr<Endpoint> endpoint, transport_->Connect(shards));
  SessionOptions session = SessionOptionsOf(config_, key_);
  session.on_acknowledged = [this](const Message& push, Time sent) { Acknowledged(push, sent); };
  trace_.Begin(joined.trace_steps(), key_.worker());
  if (!options_.push_log.empty()) {
    PSGD_ASSIGN_OR_RETURN(push_log_, PushLog::Open(options_.push_log));
  }
  core_ = std::make_unique<WorkerCore>(session, PullsAhead(config_.consistency()), placement_,
                                       SteadyNow());
  if (TakesLocalSteps(config_.local())) {
    local_ = std::make_unique<LocalSteps>(LocalSteps::Options{
        .config = config_,
        .model = network_->spec(),
        .placement = placement_,
        .fragments = core_->session().fragments(),
        .weights = [this](int parameter) { return network_->parameter(parameter); },
        .gradient = [this](int parameter) { return GradientOf(parameter); }});
  }
  session_ = std::make_unique<Session>(
      &core_->session(), std::move(endpoint), [this] { return Interrupted(); },
      [this] { return ShardsMoved(); });
  const auto traced = [this](TraceSpan::Kind kind) {
    return [this, kind](Time start, Time end) { trace_.Add(kind, arriving_for_, start, end); };
  };
  weights_ = std::make_unique<ArrivingWeights>(
      ArrivingWeights::Options{.codecs = codecs_,
                               .model = network_->spec(),
                               .placement = placement_,
                               .own = pushed_factors_,
                               .weights = [this](int parameter) { return Installed(parameter); },
                               .on_waited = traced(TraceSpan::PULL),
                               .on_installed = traced(TraceSpan::INSTALL)},
      &core_->session(), session_.get());
  autotune_ = std::make_unique<Autotune>(
      AutotuneOptions{.compression = config_.compression(),
                      .worker = key_.worker(),
                      .log = options_.log,
                      .report =
                          [this](const CodecChoices& choices) {
                            heartbeat_->Record([&](WorkerReport* report) {
                              *report->mutable_choices() = choices;
                            });
                          }},
      encoder_.get(), session_.get());
  return absl::OkStatus();
}

absl::Status Trainer::PrepareEncoder(const NetworkOptions& first) {
  Network* const network = network_->device_network();
  const ClipConfig& clip = config_.train().clip();
  const bool clips = clip.norm() > 0 || clip.value() > 0;
  // Local steps and bounds need the gradients themselves.
  if (network != nullptr && !TakesLocalSteps(config_.local()) && !clips) {
    PSGD_ASSIGN_OR_RETURN(device_codecs_, LoadDeviceCodecs(first));
  }
  std::vector<int64_t> factor_rows;
  for (int i = 0; i < network_->spec().parameters_size(); ++i) {
    factor_rows.push_back(network_->factor_rows(i));
    if (factor_rows.back() == 0) continue;
    options_.log->info("pushes the gradient of {} as its factors",
                       network_->spec().parameters(i).name());
  }
  if (clips) clip_.emplace(clip, network_->spec(), factor_rows);
  PSGD_ASSIGN_OR_RETURN(encoder_,
                        UpdateEncoder::Create(config_, network_->spec(), placement_, key_.worker(),
                                              factor_rows, device_codecs_.get()));
  const auto& on_device = encoder_->on_device();
  const auto moved = std::ranges::count(on_device, true);
  if (moved == 0) return absl::OkStatus();
  options_.log->info("the gradients of {} of {} parameters are encoded on the GPU", moved,
                     on_device.size());
  network->KeepOnDevice(on_device, [this](int parameter, const DeviceGradient& gradient) {
    return encoder_->Start(parameter, gradient, step_weight_decay_, step_clock_);
  });
  return absl::OkStatus();
}

absl::Status Trainer::Train() {
  while (true) {
    PSGD_RETURN_IF_ERROR(Interrupted());
    const WorkerTask now = core_->task();
    PSGD_RETURN_IF_ERROR(std::visit([this](const auto& task) { return Do(task); }, now));
    if (std::holds_alternative<task::Leave>(now)) return absl::OkStatus();
    session_->Send();
  }
}

void Trainer::TellAsked() {
  // With local steps a segment lasts long: a worker of a draining run does not wait for its end.
  if (local_) return core_->SetAsked(Asked() || heartbeat_->drain(), /*drain=*/false);
  core_->SetAsked(Asked(), heartbeat_->drain());
}

void Trainer::Done() {
  TellAsked();
  core_->Done(SteadyNow());
}

absl::Status Trainer::Do(const task::AskSegment& ask) {
  PSGD_ASSIGN_OR_RETURN(const NextSegmentReply next, client_->NextSegment(ask.request));
  if (next.has_leaders()) heartbeat_->SetLeaders(next.leaders());
  TellAsked();
  core_->OnSegment(next, SteadyNow());
  return absl::OkStatus();
}

absl::Status Trainer::Do(const task::Pause& pause) {
  if (pause.reason != waiting_for_) options_.log->info("{}", pause.reason);
  waiting_for_ = pause.reason;
  // A worker with local steps stays for the last checkpoint, which keeps its optimizer.
  const bool saves = local_ && local_->begun() && heartbeat_->drain();
  if (pause.leaves && !saves) {
    PSGD_ASSIGN_OR_RETURN(const double norm, encoder_->ResidualNorm());
    if (norm == 0) {
      core_->LeaveNow();
      return absl::OkStatus();
    }
  }
  std::this_thread::sleep_for(pause.duration);
  Done();
  return absl::OkStatus();
}

absl::Status Trainer::Do(const task::Await& await) {
  const auto advanced = [this] { return core_->Advance(SteadyNow()); };
  if (await.what != task::Await::kWeights) return session_->WaitUntil(advanced);
  arriving_for_ = await.clock + 1;
  if (core_->session().pulls_average()) KeepWeights();
  weights_->Begin();
  if (local_) {
    if (core_->step_follows() && local_->begun() && config_.local().delay() > 0) {
      return StepLocally(await.clock + 1, BringArriving());
    }
    PSGD_RETURN_IF_ERROR(OfWeights(weights_->AwaitAll()));
  } else if (weights_ahead_ == nullptr || !weights_ahead_->begun()) {
    if (core_->step_follows() && network_->waits_by_parameter()) {
      PSGD_ASSIGN_OR_RETURN(const bool here, NextBatchIsHere());
      if (here) return Step(await.clock + 1, BringArriving());
    }
    PSGD_RETURN_IF_ERROR(OfWeights(weights_->AwaitAll()));
  }
  return session_->WaitUntil(advanced);
}

absl::Status Trainer::Do(const task::RestoreState&) {
  const std::map<uint32_t, Bytes> loaded = core_->session().TakeLoadedState();
  if (local_) {
    const auto saved = JoinProgramState(loaded);
    if (!saved || !local_->Restore(*saved, key_.worker())) {
      options_.log->warn(
          "the local optimizer begins anew: the checkpoint {}",
          saved ? "has its state for other local.* keys" : "has no complete state of this worker");
    }
  }
  PSGD_ASSIGN_OR_RETURN(const double dropped, encoder_->RestoreResiduals(loaded));
  if (dropped != 0) {
    options_.log->warn(
        "the checkpoint's residual, of norm {}, is dropped: no codec of this run takes it",
        dropped);
    heartbeat_->Record([&](WorkerReport* report) { report->set_residual_norm_lost(dropped); });
  }
  Done();
  return absl::OkStatus();
}

absl::Status Trainer::Do(const task::SaveState& save) {
  PSGD_RETURN_IF_ERROR(ReportResidual());
  PSGD_ASSIGN_OR_RETURN(auto states, encoder_->CopyResiduals());
  AddLocalState(&states);
  core_->session().SaveState(save.checkpoint, states, SteadyNow());
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
    StepClock finishing(&seconds_encode_, &trace_, TraceSpan::INSTALL, install.clock + 1);
    PSGD_RETURN_IF_ERROR(OfWeights(weights_ahead_->Finish()));
  } else {
    network_->InvalidateParameters();
  }
  if (local_ && install.for_step) local_->Take(install.clock);
  waited_ += PartsOfWait(weights_->waited(), core_->session().last_answer());
  seconds_encode_ += weights_->installing();
  core_->session().TakePulled();
  // A pull that was sent ahead may lack the step before. After an evaluation of the average the
  // worker goes on with its own weights, which lack more.
  if (install.clock > 0 && !core_->session().pulls_average()) {
    pushed_factors_.Forget(install.clock - 1);
  }
  if (install.for_step) {
    Stopwatch choosing(&seconds_encode_);
    PSGD_RETURN_IF_ERROR(autotune_->BetweenSteps(install.clock));
  }
  Done();
  return absl::OkStatus();
}

absl::Status Trainer::Do(const task::Report& report) {
  // A server that hangs must not take more time than there is.
  if (Asked()) {
    client_->SetDeadline(
        std::min(Milliseconds(config_.cluster().deadline()), std::max(DrainTimeLeft(), kGoodbye)));
  }
  ReportDamage();
  if (SteadyNow() - residual_reported_ >= kResidualPeriod) PSGD_RETURN_IF_ERROR(ReportResidual());
  heartbeat_->Record([&](WorkerReport* next) { next->set_clock(report.clock); });
  PSGD_RETURN_IF_ERROR(heartbeat_->Flush());
  Done();
  return absl::OkStatus();
}

absl::Status Trainer::OfWeights(absl::Status status) {
  if (!absl::IsOutOfRange(status)) return status;
  return OutOfRangeError("the server's weights are not finite numbers (", status.message(), "); ",
                         kDiverged);
}

absl::Status Trainer::Do(const task::Train& train) {
  session_->Send();  // the pull of the next weights leaves before this step computes
  return local_ ? StepLocally(train.clock, nullptr) : Step(train.clock, nullptr);
}

Trainer::Bring Trainer::BringArriving() {
  return [this](int parameter) -> absl::Status {
    PSGD_RETURN_IF_ERROR(
        OfWeights(parameter == kAllWeights ? weights_->AwaitAll() : weights_->Await(parameter)));
    if (!core_->Advance(SteadyNow())) return absl::OkStatus();
    // The step that computes is the task from now on.
    PSGD_RETURN_IF_ERROR(Do(std::get<task::Install>(WorkerTask(core_->task()))));
    session_->Send();
    return absl::OkStatus();
  };
}

absl::Status Trainer::Step(uint64_t clock, const Bring& bring) {
  const bool staged = ahead_.has_value();
  PSGD_ASSIGN_OR_RETURN(const Batch batch, NextBatch(clock, /*another=*/false));
  if (options_.step_delay.count() > 0) std::this_thread::sleep_for(options_.step_delay);

  step_clock_ = clock;
  step_weight_decay_ = heartbeat_->hyper().weight_decay();
  double encoding = 0, bringing = 0;
  const Time start = SteadyNow();
  Time computes_since = start;
  const auto brought = [&](int parameter) -> absl::Status {
    if (!std::holds_alternative<task::Await>(core_->task())) return absl::OkStatus();
    const Session::Inside inside(session_.get());
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
    // Of a GPU's part of the encoding nothing can be told from computing.
    double waiting = 0;
    Stopwatch timer(encoder_->on_device()[parameter] ? &waiting : &encoding);
    if (pushed.ok()) pushed = TakeGradient(parameter);
  };
  const StepBatch now = StepBatchOf(batch, staged);
  const StepBatch next = ahead_ ? StepBatchOf(*ahead_, false) : now;
  BesideStep beside;
  beside.next = ahead_ ? &next : nullptr;
  if (weights_ahead_ != nullptr && core_->pulled_ahead())
    beside.meanwhile = [this] { return InstallAhead(); };
  if (bring) {
    beside.bring = brought;
    network_->InvalidateParameters();
  }
  const auto compute = [&] {
    const Session::Away away(session_.get());
    return network_->TrainStep(now, clock, push, beside);
  };
  PSGD_ASSIGN_OR_RETURN(const Network::Result result, compute());
  PSGD_RETURN_IF_ERROR(pushed);
  Done();  // ends the clock
  session_->Send();
  const Time end = SteadyNow();
  seconds_compute_ += Seconds(end - start) - encoding - bringing;
  seconds_encode_ += encoding;
  trace_.Add(TraceSpan::COMPUTE, clock, computes_since, end);
  ReportLaunches(clock, result);
  return ReportStep(clock, result);
}

absl::Status Trainer::StepLocally(uint64_t clock, const Bring& bring) {
  const uint64_t most = StepsOfClock(config_.local());
  const double epochs_per_step = segment_->epochs_per_clock() / segment_->steps(0);
  const double begin =
      segment_->epoch_at_start() +
      static_cast<double>(clock - 1 - segment_->first_clock()) * segment_->epochs_per_clock();
  const uint64_t steps = core_->steps();
  // Of a worker with fewer steps, or of a short clock, the same share.
  const uint64_t delay = static_cast<uint64_t>(config_.local().delay()) * steps / most;
  const auto waits = [&] { return std::holds_alternative<task::Await>(core_->task()); };
  for (uint64_t i = 0; i < steps; ++i) {
    PSGD_RETURN_IF_ERROR(Interrupted());
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
         .total_epochs = static_cast<double>(config_.train().epochs())},
        i + 1 < steps));
  }
  if (waits()) PSGD_RETURN_IF_ERROR(bring(kAllWeights));
  PSGD_RETURN_IF_ERROR(PushChanges(clock));
  Done();  // ends the clock
  session_->Send();
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
  const auto compute = [&] {
    const Session::Away away(session_.get());
    return network_->TrainStep(
        now, time.step + 1,
        [this](int parameter) {
          if (clip_) clip_->Add(parameter, network_->gradient(parameter));
        },
        beside);
  };
  PSGD_ASSIGN_OR_RETURN(const Network::Result result, compute());
  local_->Step(time);
  if (clip_) clip_->EndStep();
  network_->InvalidateParameters();
  const Time end = SteadyNow();
  seconds_compute_ += Seconds(end - start);
  trace_.Add(TraceSpan::COMPUTE, clock, start, end);
  ReportLaunches(clock, result);
  return ReportStep(clock, result);
}

bool Trainer::GaveUpLocalSteps() {
  if (!Asked() && !heartbeat_->drain()) return false;
  TellAsked();
  core_->GiveUpStep(SteadyNow());
  return true;
}

absl::Status Trainer::PushChanges(uint64_t clock) {
  Stopwatch encoding(&seconds_encode_);
  encoder_->OnlySlices(
      [this, clock](uint32_t slice) { return core_->session().fragments().Carries(clock, slice); });
  local_->Exchanged(clock);
  for (int p = 0; p < network_->spec().parameters_size(); ++p) {
    encoded_.clear();
    encoder_->Encode(p, local_->Change(p), local_->shards(p), /*weight_decay=*/0, clock, &encoded_);
    PushEncoded(clock);
  }
  return absl::OkStatus();
}

void Trainer::PushEncoded(uint64_t clock) {
  for (EncodedSlice& slice : encoded_) {
    autotune_->Pushed(slice.travels().size());
    if (slice.codec == CODEC_FACTORS && PullsUpdates(config_)) {
      pushed_factors_.Keep(slice.slice, clock, slice.payload);
    }
    session_->Push(clock, std::move(slice));
  }
}

void Trainer::AddLocalState(std::vector<std::pair<uint32_t, Bytes>>* states) {
  if (!local_ || !local_->begun()) return;
  if (local_->SavedBytes() > kMostProgramState) {
    options_.log->warn(
        "the state of this worker's local optimizer has {}, and checkpoints keep at most {} of a "
        "worker: this checkpoint has none, and a run that goes on from it begins with a new one",
        HumanBytes(static_cast<double>(local_->SavedBytes())),
        HumanBytes(static_cast<double>(kMostProgramState)));
    return;
  }
  std::ranges::move(SplitProgramState(local_->Save(key_.worker(), core_->clock())),
                    std::back_inserter(*states));
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
  StepClock loading(&seconds_data_, &trace_, TraceSpan::DATA, clock);
  Batch batch;
  if (ahead_) {
    batch = *std::exchange(ahead_, std::nullopt);
  } else {
    PSGD_ASSIGN_OR_RETURN(batch, loader_->Next());
  }
  // Not waited for: this step goes on without.
  if (!network_->stages() || !(another || core_->batch_follows())) return batch;
  if (auto ready = loader_->NextIfReady()) {
    PSGD_ASSIGN_OR_RETURN(ahead_, *std::move(ready));
  }
  return batch;
}

std::span<const float> Trainer::GradientOf(int parameter) {
  const std::span<const float> gradient = network_->gradient(parameter);
  return clip_ ? clip_->Clipped(parameter, gradient) : gradient;
}

// Gradients come from the last parameter to the first.
absl::Status Trainer::TakeGradient(int parameter) {
  if (!clip_ || !clip_->waits_for_all()) return PushGradient(parameter);
  clip_->Add(parameter, network_->gradient(parameter));
  if (parameter > 0) return absl::OkStatus();
  for (int p = network_->spec().parameters_size() - 1; p >= 0; --p) {
    PSGD_RETURN_IF_ERROR(PushGradient(p));
  }
  clip_->EndStep();
  return absl::OkStatus();
}

absl::Status Trainer::PushGradient(int parameter) {
  encoded_.clear();
  if (encoder_->on_device()[parameter]) {
    PSGD_RETURN_IF_ERROR(encoder_->Finish(parameter, &encoded_));
  } else {
    encoder_->Encode(parameter, GradientOf(parameter), network_->parameter(parameter),
                     step_weight_decay_, step_clock_, &encoded_);
  }
  PushEncoded(step_clock_);
  return absl::OkStatus();
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
  if (local_) local_->ShowShards();
  EvaluationBatches batches(data_->test, network_->batch());
  EvaluatedRequest request;
  *request.mutable_key() = key_;
  PSGD_ASSIGN_OR_RETURN(*request.mutable_result(),
                        Evaluate(*network_, batches, data_->targets, config_.model().loss(),
                                 config_.data().threads()));
  if (local_) local_->ShowOwn();
  PutBackWeights();
  network_->InvalidateParameters();
  ReportDamage();
  request.mutable_result()->set_epoch(evaluate.epoch);
  request.mutable_result()->set_clock(evaluate.clock);
  options_.log->info("after epoch {:.4g}: test {} on {} samples in {:.1f} s", evaluate.epoch,
                     ResultText(request.result()), request.result().samples(),
                     request.result().seconds());
  PSGD_RETURN_IF_ERROR(client_->Evaluated(request).status());
  Done();
  return absl::OkStatus();
}

namespace {
// How long a thread that waits for a GPU leaves its messages alone, while weights are to come.
constexpr Duration kAheadPause = std::chrono::microseconds(100);
}  // namespace

absl::Status Trainer::PrepareAhead() {
  if (options_.gpus.empty() || !config_.consistency().pull_ahead()) return absl::OkStatus();
  const absl::Status room = network_->MakeRoomAhead();
  if (absl::IsResourceExhausted(room)) {
    options_.log->info(
        "weights pulled ahead reach the GPU between the steps: a second copy of them there takes "
        "{}",
        std::string(room.message()));
    return absl::OkStatus();
  }
  PSGD_RETURN_IF_ERROR(room);
  weights_ahead_ = std::make_unique<WeightsAhead>(codecs_, placement_, network_.get());
  return absl::OkStatus();
}

bool Trainer::InstallAhead() {
  if (!session_->PullCame()) {
    std::this_thread::sleep_for(kAheadPause);
    return true;
  }
  const Session::Inside inside(session_.get());
  weights_ahead_->Begin(core_->session().pulled(), pushed_factors_);
  return false;
}

bool Trainer::Asked() const {
  const bool process = options_.stops != nullptr && *options_.stops > 0;
  return process || (heartbeat_ && heartbeat_->leave_asked());
}

Duration Trainer::DrainTimeLeft() const {
  if (options_.stops != nullptr && *options_.stops > 0) {
    if (options_.stop_asked == nullptr) return Duration::max();
    return options_.drain_deadline - (SteadyNow() - options_.stop_asked->load());
  }
  return options_.drain_deadline - (SteadyNow() - *heartbeat_->leave_asked());
}

absl::Status Trainer::Do(const task::GiveResidual& give) {
  if (local_ && heartbeat_->drain()) {
    std::vector<std::pair<uint32_t, Bytes>> states;
    AddLocalState(&states);
    core_->session().SaveState(0, states, SteadyNow());
  }
  PSGD_ASSIGN_OR_RETURN(const GivenResidual given, psgd::GiveResidual(give.clock, encoder_.get(),
                                                                      core_.get(), session_.get()));
  residual_norm_left_ = given.norm_left;
  if (!given.pushed.ok()) {
    const std::string what =
        absl::StrCat("asked to stop, but of its residual, of norm ", given.norm, ", norm ",
                     given.norm_left, " was not pushed: ", given.pushed.message());
    options_.log->warn("{}", what);
    return absl::Status(given.pushed.code(), what);
  }
  heartbeat_->Record([](WorkerReport* report) { report->set_residual_norm(0); });
  residual_reported_ = SteadyNow();
  gave_ =
      given.any ? absl::StrCat("pushed its residual, of norm ", given.norm) : "with no residual";
  return absl::OkStatus();
}

absl::Status Trainer::Do(const task::Leave& leave) {
  switch (leave.why) {
    case task::Leave::kRunIsOver:
      options_.log->info("done: {}", leave.reason);
      return absl::OkStatus();
    case task::Leave::kAskedBeforeFirstStep:
      // What it loaded, and never pushed, stays on the shards for the worker that takes its place.
      residual_norm_left_ = 0;
      return absl::CancelledError("asked to stop before its first step");
    case task::Leave::kAskedWhileWaiting:
      return absl::CancelledError("stopped while waiting");
    case task::Leave::kGaveResidual:
      break;
  }
  const std::string what = absl::StrCat("asked to stop after step ", core_->clock(), "; ", gave_);
  options_.log->info("{}", what);
  return absl::CancelledError(what);
}

absl::Status Trainer::ReportResidual() {
  PSGD_ASSIGN_OR_RETURN(const double norm, encoder_->ResidualNorm());
  heartbeat_->Record([&](WorkerReport* report) { report->set_residual_norm(norm); });
  residual_reported_ = SteadyNow();
  return absl::OkStatus();
}

void Trainer::NoteResidualLeft(const absl::Status& status) {
  if (residual_norm_left_ || !encoder_) return;
  const absl::StatusOr<double> norm = encoder_->ResidualNorm();
  if (!norm.ok()) return;
  residual_norm_left_ = *norm;
  // Of a run that is over, the last checkpoint has it.
  if (*norm > 0 && !status.ok()) {
    options_.log->warn("leaves without having pushed its residual, of norm {}", *norm);
  }
}

void Trainer::Leave(const absl::Status& status) {
  if (loader_) loader_->Cancel();
  if (heartbeat_ && status.ok()) (void)heartbeat_->Flush();
  closing_ = true;
  // A server that did not answer in time is not asked for more, not even to let this worker go.
  const bool silent = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  const bool lost = silent || (heartbeat_ && !heartbeat_->status().ok());
  if (client_ && lost) client_->Cancel();
  if (heartbeat_) heartbeat_->Stop();
  NoteResidualLeft(status);
  if (!client_ || key_.incarnation() == 0 || lost) return;
  LeaveRequest request;
  *request.mutable_key() = key_;
  request.set_reason(status.ok() ? "the run is over" : std::string(status.message()));
  request.set_failed(!status.ok() && !absl::IsCancelled(status));
  if (residual_norm_left_) request.set_residual_norm(*residual_norm_left_);
  if (Asked()) client_->SetDeadline(std::max(DrainTimeLeft(), kGoodbye));
  (void)client_->Leave(request);  // the lease ends it too
}

absl::StatusOr<std::optional<MovedShards>> Trainer::ShardsMoved() const {
  const auto addresses = heartbeat_->TakeMove();
  if (!addresses) return std::nullopt;
  MovedShards moved{nullptr, *addresses};
  PSGD_ASSIGN_OR_RETURN(moved.endpoint, transport_->Connect(*addresses));
  return moved;
}

void Trainer::Acknowledged(const Message& push, Time sent) {
  if (push_log_) push_log_->Acknowledged(push);
  trace_.AddPush(push.header, sent, SteadyNow());
}

absl::Status Trainer::ReportStep(uint64_t clock, const Network::Result& result) {
  if (!std::isfinite(result.loss_sum)) {
    return OutOfRangeError("the loss is not a finite number at step ", clock, "; ", kDiverged);
  }
  const EndpointStats traffic = session_->traffic();
  const SessionStats& stats = core_->session().stats();
  const double cpu_before = std::exchange(cpu_seconds_, ProcessCpuSeconds());
  heartbeat_->Record([&](WorkerReport* report) {
    // Not this step's: what is not acknowledged may have to be done again by another worker.
    report->set_clock(core_->session().AcknowledgedClock());
    report->set_steps(report->steps() + 1);
    report->set_samples(report->samples() + result.counted);
    report->set_loss_sum(report->loss_sum() + result.loss_sum);
    report->set_correct(report->correct() + result.correct);
    session_report_.AddTo(traffic, stats, report);
    report->set_bytes_pushed_dense(report->bytes_pushed_dense() + dense_bytes_);
    report->set_bytes_pulled_dense(report->bytes_pulled_dense() + dense_bytes_);
    report->set_seconds_data(report->seconds_data() + seconds_data_);
    report->set_seconds_compute(report->seconds_compute() + seconds_compute_);
    report->set_seconds_encode(report->seconds_encode() + seconds_encode_);
    report->set_seconds_wait(report->seconds_wait() + waited_.wait);
    report->set_seconds_wire(report->seconds_wire() + waited_.wire);
    report->set_seconds_apply(report->seconds_apply() + waited_.apply);
    report->set_seconds_cpu(report->seconds_cpu() +
                            (cpu_seconds_ - cpu_before) / options_.workers_here);
    trace_.MoveTo(report);
  });
  progress_log_.Add(clock, result.counted, result.loss_sum,
                    seconds_data_ + waited_.wait + waited_.wire + waited_.apply, SteadyNow());
  seconds_data_ = seconds_compute_ = seconds_encode_ = 0;
  waited_ = {};
  return absl::OkStatus();
}

void Trainer::ReportLaunches(uint64_t clock, const Network::Result& result) {
  constexpr int kSettled = 3;  // steps after which all are replayed, if any are
  if (!options_.gpus.empty() && ++steps_ == kSettled) {
    const absl::Status& recorded = network_->recorded();
    if (recorded.ok()) {
      options_.log->info("steps are recorded: each is one launch");
    } else {
      options_.log->warn("steps are launched kernel by kernel: {}", recorded.ToString());
    }
  }
  if (result.repeated == 0) return;
  repeated_steps_ += result.repeated;
  options_.log->info(
      "step {}: gradients left fp16 and were computed again, now with a loss scale of {}; {} times "
      "in {} steps",
      clock, network_->loss_scale(), repeated_steps_, steps_);
}

void Trainer::ReportDamage() {
  const uint64_t damaged = data_->damage ? data_->damage->count() : 0;
  if (damaged == reported_damage_) return;
  reported_damage_ = damaged;
  options_.log->warn("{} damaged samples were read and left out so far, the last: {}", damaged,
                     data_->damage->last());
}

}  // namespace psgd
