#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/cpu_time.h"
#include "compression/policy.h"
#include "engine/onnx/import.h"
#include "net/wire_format.h"
#include "train/device_codecs.h"
#include "train/evaluate.h"
#include "train/factor_layers.h"
#include "train/step_clock.h"
#include "worker/factor_pushes.h"
#include "worker/install_slice.h"

namespace psgd {
namespace {

constexpr char kDiverged[] =
    "training diverged: lower optimizer.*.learning_rate, add schedule.warmup, or lower "
    "consistency.staleness. The last checkpoint is unharmed";

// The norm takes a pass over all residuals, which may lie on a GPU.
constexpr Duration kResidualPeriod = std::chrono::seconds(5);

StepBatch StepBatchOf(const Batch& batch, bool staged) {
  return {{batch.pixels, batch.tokens, batch.values}, batch.labels, staged};
}

// Whether the server may send updates in place of weights, for which a worker needs its own.
bool PullsUpdates(const Config& config) {
  return config.compression().pull().has_delta() &&
         !config.compression().pull().delta().has_codec();
}

}  // namespace

Trainer::Trainer(TrainerOptions options) : options_(std::move(options)) {}

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
  if (status.ok()) status = TrainSegments();
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
  const CurveKeys curve = MakeCurveKeys();
  join.set_curve_key(curve.public_key);
  PSGD_ASSIGN_OR_RETURN(const JoinReply joined, client_->Join(join));
  key_ = joined.key();
  config_ = joined.config();
  client_->SetDeadline(Milliseconds(config_.cluster().deadline()));
  client_->SetToken(joined.token());
  options_.log->info("joined {} at {} as worker {}, incarnation {}", joined.run_name(),
                     options_.server, key_.worker(), key_.incarnation());
  heartbeat_ = std::make_unique<Heartbeat>(client_.get(), joined, options_.log);
  heartbeat_->Start();

  PSGD_ASSIGN_OR_RETURN(data_, options_.open_data(config_.data(), config_.seed()));
  std::vector<NetworkOptions> networks = NetworksOf(options_);
  for (NetworkOptions& network : networks) {
    network.seed = config_.seed();
    network.worker = key_.worker();
    network.factors = FactorLayers(config_, networks.size());
  }
  PSGD_ASSIGN_OR_RETURN(
      network_,
      Replicas::Create(
          config_.model(), InputShapeOf(data_->shape), config_.data().batch(), networks,
          config_.node().reduce() == NodeConfig::NCCL ? ReduceOn::kDevices : ReduceOn::kHost));
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
  transport.security = MemberSecurity(options_, curve, joined);
  PSGD_ASSIGN_OR_RETURN(transport_, MakeTransport(config_.cluster().transport(), transport));
  PSGD_ASSIGN_OR_RETURN(std::unique_ptr<Endpoint> endpoint, transport_->Connect(shards));
  SessionOptions session;
  session.key = key_;
  session.resend = Milliseconds(config_.cluster().resend());
  session.deadline = Milliseconds(config_.cluster().deadline());
  session.window_bytes = config_.cluster().window();
  session.fuse_bytes = config_.cluster().fuse();
  session.on_acknowledged = [this](const Message& push, Time sent) { Acknowledged(push, sent); };
  trace_.Begin(joined.trace_steps(), key_.worker());
  if (!options_.push_log.empty()) {
    PSGD_ASSIGN_OR_RETURN(push_log_, PushLog::Open(options_.push_log));
  }
  session_ = std::make_unique<Session>(
      std::move(endpoint), session, placement_, [this] { return Interrupted(); },
      [this] { return ShardsMoved(); });
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
  if (network != nullptr) {
    PSGD_ASSIGN_OR_RETURN(device_codecs_, LoadDeviceCodecs(first));
  }
  std::vector<int64_t> factor_rows;
  for (int i = 0; i < network_->spec().parameters_size(); ++i) {
    factor_rows.push_back(network_->factor_rows(i));
    if (factor_rows.back() == 0) continue;
    options_.log->info("pushes the gradient of {} as its factors",
                       network_->spec().parameters(i).name());
  }
  PSGD_ASSIGN_OR_RETURN(encoder_,
                        UpdateEncoder::Create(config_, network_->spec(), placement_, key_.worker(),
                                              factor_rows, device_codecs_.get()));
  const auto& on_device = encoder_->on_device();
  const auto moved = std::count(on_device.begin(), on_device.end(), true);
  if (moved == 0) return absl::OkStatus();
  options_.log->info("the gradients of {} of {} parameters are encoded on the GPU", moved,
                     on_device.size());
  network->KeepOnDevice(on_device, [this](int parameter, const DeviceGradient& gradient) {
    return encoder_->Start(parameter, gradient, step_weight_decay_, step_clock_);
  });
  return absl::OkStatus();
}

absl::Status Trainer::TrainSegments() {
  NextSegmentRequest request;
  *request.mutable_key() = key_;
  request.set_first(true);
  uint64_t clock = 0;
  bool loaded = false;
  std::string waiting_for;
  while (true) {
    PSGD_RETURN_IF_ERROR(Interrupted());
    PSGD_ASSIGN_OR_RETURN(const NextSegmentReply next, client_->NextSegment(request));
    if (next.has_leaders()) heartbeat_->SetLeaders(next.leaders());
    if (next.load_state() && !loaded && next.kind() == NextSegmentReply::RUN) {
      PSGD_RETURN_IF_ERROR(LoadState());
      loaded = true;
    }
    if (next.save_state_for() > saved_checkpoint_) {
      PSGD_RETURN_IF_ERROR(SaveState(next.save_state_for()));
    }
    PSGD_ASSIGN_OR_RETURN(const bool leaves, LeavesTheRun());
    const bool runs = next.kind() == NextSegmentReply::RUN;
    // One that leaves in the next segment has no time for it; another is asked then.
    if (next.evaluate() && !(leaves && runs)) {
      PSGD_RETURN_IF_ERROR(EvaluateNow(next.evaluate_epoch(), clock));
    }
    if (next.kind() == NextSegmentReply::DONE) {
      options_.log->info("done: {}", next.reason());
      return absl::OkStatus();
    }
    if (next.kind() == NextSegmentReply::WAIT) {
      if (next.reason() != waiting_for) options_.log->info("{}", next.reason());
      waiting_for = next.reason();
      if (leaves) {
        PSGD_ASSIGN_OR_RETURN(const double norm, encoder_->ResidualNorm());
        if (request.first() || norm == 0) return absl::CancelledError("stopped while waiting");
        // Otherwise the next segment, or the run's last checkpoint, takes the residual.
      }
      if (!next.evaluate() && next.save_state_for() == 0) {
        std::this_thread::sleep_for(Milliseconds(next.wait_ms()));
      }
      continue;
    }
    PSGD_RETURN_IF_ERROR(RunSegment(next.segment()));
    clock = next.segment().first_clock() + next.segment().clocks();
    request.set_first(false);
    request.set_finished_segment(next.segment().id());
  }
}

bool Trainer::HasBatch(const Segment& segment, uint64_t clock) const {
  const uint64_t step = clock - segment.first_clock() - 1;
  return step < segment.clocks() && step < static_cast<uint64_t>(segment.batches_size());
}

absl::Status Trainer::RunSegment(const Segment& segment) {
  cpu_seconds_ = ProcessCpuSeconds();
  for (const uint32_t batch : segment.batches()) loader_->Enqueue(segment.epoch(), batch);
  for (uint32_t step = 0; step < segment.clocks(); ++step) {
    PSGD_RETURN_IF_ERROR(Interrupted());
    const uint64_t clock = segment.first_clock() + step + 1;
    if (HasBatch(segment, clock)) {
      PSGD_ASSIGN_OR_RETURN(const bool leaves, LeavesTheRun());
      if (leaves) return PushResidual(clock - 1);
      PSGD_RETURN_IF_ERROR(Step(segment, clock));
    } else {
      // The others have one batch more than this worker: an empty step keeps the clocks together.
      session_->EndClock(clock);
    }
  }
  ReportDamage();
  PSGD_RETURN_IF_ERROR(session_->WaitAcknowledged());
  if (SteadyNow() - residual_reported_ >= kResidualPeriod) PSGD_RETURN_IF_ERROR(ReportResidual());
  return heartbeat_->Flush();
}

absl::Status Trainer::PullWeights(uint64_t clock) {
  double seconds = 0;
  {
    StepClock waiting(&seconds, &trace_, TraceSpan::PULL, clock + 1);
    if (pulled_ahead_ != clock) session_->Pull(clock);
    pulled_ahead_.reset();
    PSGD_RETURN_IF_ERROR(session_->WaitPulled());
  }
  waited_ += PartsOfWait(seconds, session_->last_answer());
  StepClock decoding(&seconds_encode_, &trace_, TraceSpan::INSTALL, clock + 1);
  PSGD_RETURN_IF_ERROR(InstallWeights());
  // One that was asked for ahead may lack the step before.
  if (clock > 0) pushed_factors_.Forget(clock - 1);
  return absl::OkStatus();
}

absl::Status Trainer::InstallWeights() {
  const bool ahead = weights_ahead_ != nullptr && weights_ahead_->begun();
  const auto weights = [this](int parameter) { return network_->parameter(parameter); };
  const absl::Status installed =
      ahead ? weights_ahead_->Finish()
            : InstallPulled(codecs_, network_->spec(), placement_, session_->pulled(),
                            pushed_factors_, weights, weights);
  if (absl::IsOutOfRange(installed)) {
    return absl::OutOfRangeError(absl::StrCat("the server's weights are not finite numbers (",
                                              installed.message(), "); ", kDiverged));
  }
  PSGD_RETURN_IF_ERROR(installed);
  session_->TakePulled();
  if (!ahead) network_->InvalidateParameters();
  return absl::OkStatus();
}

absl::Status Trainer::Step(const Segment& segment, uint64_t clock) {
  PSGD_RETURN_IF_ERROR(PullWeights(clock - 1));
  {
    StepClock choosing(&seconds_encode_);
    PSGD_RETURN_IF_ERROR(autotune_->BetweenSteps(clock - 1));
  }
  PullAhead(segment, clock);
  const bool staged = ahead_.has_value();
  PSGD_ASSIGN_OR_RETURN(const Batch batch, NextBatch(segment, clock));
  if (options_.step_delay.count() > 0) std::this_thread::sleep_for(options_.step_delay);

  step_clock_ = clock;
  step_weight_decay_ = heartbeat_->hyper().weight_decay();
  double encoding = 0;
  const Time start = SteadyNow();
  absl::Status pushed;
  const auto push = [&](int parameter) {
    // Of a GPU's part of the encoding nothing can be told from computing.
    double waiting = 0;
    StepClock timer(encoder_->on_device()[parameter] ? &waiting : &encoding);
    if (pushed.ok()) pushed = PushGradient(parameter);
  };
  const StepBatch now = StepBatchOf(batch, staged);
  const StepBatch next = ahead_ ? StepBatchOf(*ahead_, false) : now;
  std::function<bool()> meanwhile;
  if (weights_ahead_ != nullptr && pulled_ahead_) meanwhile = [this] { return InstallAhead(); };
  PSGD_ASSIGN_OR_RETURN(const Network::Result result,
                        network_->TrainStep(now, clock, push, ahead_ ? &next : nullptr, meanwhile));
  PSGD_RETURN_IF_ERROR(pushed);
  session_->EndClock(clock);
  seconds_compute_ += Seconds(SteadyNow() - start) - encoding;
  seconds_encode_ += encoding;
  trace_.Add(TraceSpan::COMPUTE, clock, start, SteadyNow());
  if (!std::isfinite(result.loss_sum)) {
    return absl::OutOfRangeError(
        absl::StrCat("the loss is not a finite number at step ", clock, "; ", kDiverged));
  }
  ReportLaunches(clock, result);
  Report(result);
  return absl::OkStatus();
}

absl::StatusOr<Batch> Trainer::NextBatch(const Segment& segment, uint64_t clock) {
  StepClock loading(&seconds_data_, &trace_, TraceSpan::DATA, clock);
  Batch batch;
  if (ahead_) {
    batch = *std::exchange(ahead_, std::nullopt);
  } else {
    PSGD_ASSIGN_OR_RETURN(batch, loader_->Next());
  }
  // Not waited for: this step goes on without.
  if (!network_->stages() || !HasBatch(segment, clock + 1)) return batch;
  if (auto ready = loader_->NextIfReady()) {
    PSGD_ASSIGN_OR_RETURN(ahead_, *std::move(ready));
  }
  return batch;
}

absl::Status Trainer::PushGradient(int parameter) {
  encoded_.clear();
  if (encoder_->on_device()[parameter]) {
    PSGD_RETURN_IF_ERROR(encoder_->Finish(parameter, &encoded_));
  } else {
    encoder_->Encode(parameter, network_->gradient(parameter), network_->parameter(parameter),
                     step_weight_decay_, step_clock_, &encoded_);
  }
  for (EncodedSlice& slice : encoded_) {
    autotune_->Pushed(slice.travels().size());
    if (slice.codec == CODEC_FACTORS && PullsUpdates(config_)) {
      pushed_factors_.Keep(slice.slice, step_clock_, slice.payload);
    }
    session_->Push(step_clock_, std::move(slice));
  }
  return absl::OkStatus();
}

absl::Status Trainer::EvaluateNow(double epoch, uint64_t clock) {
  PSGD_RETURN_IF_ERROR(PullWeights(clock));
  EvaluationBatches batches(data_->test, network_->batch());
  EvaluatedRequest request;
  *request.mutable_key() = key_;
  PSGD_ASSIGN_OR_RETURN(*request.mutable_result(),
                        Evaluate(*network_, batches, config_.data().threads()));
  ReportDamage();
  request.mutable_result()->set_epoch(epoch);
  request.mutable_result()->set_clock(clock);
  options_.log->info(
      "after epoch {:.4g}: test accuracy {:.4f}, loss {:.4f} on {} samples in {:.1f} s", epoch,
      request.result().accuracy(), request.result().loss(), request.result().samples(),
      request.result().seconds());
  return client_->Evaluated(request).status();
}

namespace {
// How long a thread that waits for a GPU leaves its messages alone, while weights are to come.
constexpr Duration kAheadPause = std::chrono::microseconds(100);
}  // namespace

void Trainer::PullAhead(const Segment& segment, uint64_t clock) {
  // Never beyond a segment: between two of them the members may change.
  if (!config_.consistency().pull_ahead() || !HasBatch(segment, clock + 1)) return;
  session_->Pull(clock);
  pulled_ahead_ = clock;
}

absl::Status Trainer::PrepareAhead() {
  if (options_.gpus.empty() || !config_.consistency().pull_ahead()) return absl::OkStatus();
  const absl::Status room = network_->MakeRoomAhead();
  if (absl::IsResourceExhausted(room)) {
    options_.log->info(
        "weights pulled ahead reach the GPU between the steps: a second copy of them there "
        "takes {}",
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
  weights_ahead_->Begin(session_->pulled(), pushed_factors_);
  return false;
}

namespace {
// To say goodbye when there is no time left.
constexpr Duration kGoodbye = std::chrono::seconds(1);
}  // namespace

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

absl::StatusOr<bool> Trainer::LeavesTheRun() {
  if (!Asked() || heartbeat_->drain()) return false;
  // A server that hangs must not take more time than there is.
  client_->SetDeadline(
      std::min(Milliseconds(config_.cluster().deadline()), std::max(DrainTimeLeft(), kGoodbye)));
  // The run may have been asked, too.
  PSGD_RETURN_IF_ERROR(heartbeat_->Flush());
  return !heartbeat_->drain();
}

absl::Status Trainer::PushResidual(uint64_t done) {
  if (step_clock_ == 0 && session_->AcknowledgedClock() == 0) {
    // What it loaded, and never pushed, stays on the shards for who takes its place.
    residual_norm_left_ = 0;
    return absl::CancelledError("asked to stop before its first step");
  }
  const uint64_t clock = done + 1;
  PSGD_ASSIGN_OR_RETURN(std::vector<FlushedSlice> flushed, encoder_->Flush());
  double squares = 0;
  for (FlushedSlice& slice : flushed) {
    squares += slice.squared_norm;
    session_->Push(clock, slice.encoded);
  }
  if (!flushed.empty()) session_->EndClock(clock);
  const absl::Status pushed = session_->WaitAcknowledged();
  const std::vector<uint32_t> in_doubt = session_->SlicesInDoubt(clock);
  const std::set<uint32_t> lost(in_doubt.begin(), in_doubt.end());
  double left = 0;
  for (const FlushedSlice& slice : flushed) {
    if (lost.contains(slice.encoded.slice)) left += slice.squared_norm;
  }
  residual_norm_left_ = std::sqrt(left);
  if (!pushed.ok()) {
    const std::string what =
        absl::StrCat("asked to stop, but of its residual, of norm ", std::sqrt(squares), ", norm ",
                     *residual_norm_left_, " was not pushed: ", std::string(pushed.message()));
    options_.log->warn("{}", what);
    return absl::Status(pushed.code(), what);
  }
  // The batch of this clock was not trained on: another worker gets it.
  heartbeat_->Record([&](WorkerReport* report) {
    report->set_clock(done);
    report->set_residual_norm(0);
  });
  PSGD_RETURN_IF_ERROR(heartbeat_->Flush());
  const std::string what =
      flushed.empty() ? "asked to stop after step " + absl::StrCat(done) + ", with no residual"
                      : absl::StrCat("asked to stop after step ", done,
                                     "; pushed its residual, of norm ", std::sqrt(squares));
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

namespace {

// What was counted since `before` of the same histogram.
void AddSince(const CountHistogram& before, const CountHistogram& now,
              google::protobuf::RepeatedField<uint64_t>* report) {
  const auto& counts = now.counts();
  while (report->size() < static_cast<int>(counts.size())) report->Add(0);
  for (size_t i = 0; i < counts.size(); ++i) {
    const uint64_t earlier = i < before.counts().size() ? before.counts()[i] : 0;
    *report->Mutable(static_cast<int>(i)) += counts[i] - earlier;
  }
}

}  // namespace

void Trainer::Acknowledged(const Message& push, Time sent) {
  if (push_log_) push_log_->Acknowledged(push);
  trace_.AddPush(push.header, sent, SteadyNow());
}

void Trainer::Report(const Network::Result& result) {
  const EndpointStats traffic = session_->traffic();
  const SessionStats& stats = session_->stats();
  const double cpu_before = std::exchange(cpu_seconds_, ProcessCpuSeconds());
  heartbeat_->Record([&](WorkerReport* report) {
    // Not this step's: what is not acknowledged may have to be done again by another worker.
    report->set_clock(session_->AcknowledgedClock());
    report->set_steps(report->steps() + 1);
    report->set_samples(report->samples() + result.counted);
    report->set_loss_sum(report->loss_sum() + result.loss_sum);
    report->set_correct(report->correct() + result.correct);
    report->set_bytes_pushed(report->bytes_pushed() + traffic.bytes_sent -
                             reported_traffic_.bytes_sent);
    report->set_bytes_pulled(report->bytes_pulled() + traffic.bytes_received -
                             reported_traffic_.bytes_received);
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
    report->set_resent(report->resent() + stats.resent - reported_.resent);
    AddSince(reported_.pull_staleness, stats.pull_staleness, report->mutable_pull_staleness());
    AddSince(reported_.push_latency, stats.push_latency, report->mutable_push_latency());
    AddSince(reported_.pull_latency, stats.pull_latency, report->mutable_pull_latency());
    trace_.MoveTo(report);
    for (const auto& [reason, count] : stats.refused) {
      auto earlier = reported_.refused.find(reason);
      const uint64_t known = earlier == reported_.refused.end() ? 0 : earlier->second;
      if (count > known) (*report->mutable_refused())[reason] += count - known;
    }
  });
  seconds_data_ = seconds_compute_ = seconds_encode_ = 0;
  waited_ = {};
  reported_traffic_ = traffic;
  reported_ = stats;
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

absl::Status Trainer::SaveState(uint64_t checkpoint) {
  PSGD_RETURN_IF_ERROR(ReportResidual());
  PSGD_ASSIGN_OR_RETURN(auto residuals, encoder_->CopyResiduals());
  session_->SaveState(checkpoint, std::move(residuals));
  PSGD_RETURN_IF_ERROR(session_->WaitAcknowledged());
  saved_checkpoint_ = checkpoint;
  return absl::OkStatus();
}

absl::Status Trainer::LoadState() {
  PSGD_ASSIGN_OR_RETURN(const auto residuals, session_->LoadState());
  PSGD_ASSIGN_OR_RETURN(const double dropped, encoder_->RestoreResiduals(residuals));
  if (dropped == 0) return absl::OkStatus();
  options_.log->warn(
      "the checkpoint's residual, of norm {}, is dropped: no codec of this run takes it", dropped);
  heartbeat_->Record([&](WorkerReport* report) { report->set_residual_norm_lost(dropped); });
  return absl::OkStatus();
}

}  // namespace psgd
