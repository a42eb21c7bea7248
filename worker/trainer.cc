#include "worker/trainer.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/cpu_time.h"
#include "compression/policy.h"
#include "engine/onnx/import.h"
#include "net/wire_format.h"
#include "worker/device_codecs.h"
#include "worker/evaluate.h"
#include "worker/factor_pushes.h"
#include "worker/install_slice.h"
#include "worker/step_clock.h"

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
      network_, Replicas::Create(config_.model(), InputShapeOf(data_->shape),
                                 config_.data().batch(), networks,
                                 config_.node().reduce() == NodeConfig::NCCL ? ReduceOn::kDevices
                                                                             : ReduceOn::kHost));
  PSGD_ASSIGN_OR_RETURN(const std::string held, HeldFixedText(config_.model()));
  if (!held.empty()) options_.log->info("{}: {}", config_.model().onnx(), held);
  loader_ = std::make_unique<BatchLoader>(
      data_->train, BatchLoaderOptions{.batch = config_.data().batch(),
                                       // A thread that may not begin a batch would be idle.
                                       .prefetch = std::max(config_.data().prefetch(),
                                                            config_.data().threads()),
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
  const std::vector<std::string> shards(placement_.endpoints().begin(), placement_.endpoints().end());
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
  session_ = std::make_unique<Session>(std::move(endpoint), session, placement_,
                                       [this] { return Interrupted(); },
                                       [this] { return ShardsMoved(); });
  autotune_ = std::make_unique<Autotune>(
      AutotuneOptions{.compression = config_.compression(),
                      .worker = key_.worker(),
                      .log = options_.log,
                      .report = [this](const CodecChoices& choices) {
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
    if (next.has_chain()) heartbeat_->SetChain(next.chain());
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
  PSGD_ASSIGN_OR_RETURN(
      const Network::Result result,
      network_->TrainStep(now, clock, push, ahead_ ? &next : nullptr, meanwhile));
  PSGD_RETURN_IF_ERROR(pushed);
  session_->EndClock(clock);
  seconds_compute_ += Seconds(SteadyNow() - start) - encoding;
  seconds_encode_ += encoding;
  trace_.Add(TraceSpan::COMPUTE, clock, start, SteadyNow());
  if (!std::isfinite(result.loss_sum)) {
    return absl::OutOfRangeError(absl::StrCat(
        "the loss is not a finite number at step ", clock, "; ", kDiverged));
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
  options_.log->info("after epoch {:.4g}: test accuracy {:.4f}, loss {:.4f} on {} samples in {:.1f} s",
                     epoch, request.result().accuracy(), request.result().loss(),
                     request.result().samples(), request.result().seconds());
  return client_->Evaluated(request).status();
}

}  // namespace psgd
