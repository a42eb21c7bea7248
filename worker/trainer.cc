#include "worker/trainer.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "absl/strings/str_cat.h"
#include "net/wire_format.h"
#include "worker/evaluate.h"
#include "worker/factor_pushes.h"
#include "worker/install_slice.h"
#include "worker/step_clock.h"

namespace psgd {
namespace {

constexpr char kDiverged[] =
    "training diverged: lower optimizer.*.learning_rate, add schedule.warmup, or lower "
    "consistency.staleness. The last checkpoint is unharmed";

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
                           .deadline = options_.connect_deadline,
                           .interrupted = [this] { return Interrupted(); }});
  JoinRequest join;
  join.set_name(options_.name);
  join.set_device(DeviceText(options_));
  join.set_protocol(kProtocolVersion);
  PSGD_ASSIGN_OR_RETURN(const JoinReply joined, client_->Join(join));
  key_ = joined.key();
  config_ = joined.config();
  client_->SetDeadline(Milliseconds(config_.cluster().deadline()));
  options_.log->info("joined {} at {} as worker {}, incarnation {}", joined.run_name(),
                     options_.server, key_.worker(), key_.incarnation());
  heartbeat_ = std::make_unique<Heartbeat>(client_.get(), key_, Milliseconds(joined.lease_ms()),
                                           options_.log);
  heartbeat_->Start();

  PSGD_ASSIGN_OR_RETURN(data_, OpenData(config_.data(), config_.seed()));
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
  PSGD_ASSIGN_OR_RETURN(const RegisterReply registered, client_->Register(request));
  placement_ = registered.placement();
  heartbeat_->SetHyper(registered.hyper());
  for (const SliceSpec& slice : placement_.slices()) dense_bytes_ += slice.count() * sizeof(float);
  std::vector<int64_t> factor_rows;
  for (int i = 0; i < network_->spec().parameters_size(); ++i) {
    factor_rows.push_back(network_->factor_rows(i));
    if (factor_rows.back() == 0) continue;
    options_.log->info("pushes the gradient of {} as its factors",
                       network_->spec().parameters(i).name());
  }
  PSGD_ASSIGN_OR_RETURN(encoder_, UpdateEncoder::Create(config_, network_->spec(), placement_,
                                                        key_.worker(), factor_rows));

  TransportOptions transport;
  transport.log = options_.log;
  PSGD_ASSIGN_OR_RETURN(transport_, MakeTransport(config_.cluster().transport(), transport));
  PSGD_ASSIGN_OR_RETURN(
      std::unique_ptr<Endpoint> endpoint,
      transport_->Connect({placement_.endpoints().begin(), placement_.endpoints().end()}));
  SessionOptions session;
  session.key = key_;
  session.resend = Milliseconds(config_.cluster().resend());
  session.deadline = Milliseconds(config_.cluster().deadline());
  session.window_bytes = config_.cluster().window();
  session.fuse_bytes = config_.cluster().fuse();
  session_ = std::make_unique<Session>(std::move(endpoint), session, placement_,
                                       [this] { return Interrupted(); });
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
    if (next.load_state() && !loaded && next.kind() == NextSegmentReply::RUN) {
      PSGD_RETURN_IF_ERROR(LoadState());
      loaded = true;
    }
    if (next.save_state_for() > saved_checkpoint_) {
      PSGD_RETURN_IF_ERROR(SaveState(next.save_state_for()));
    }
    if (next.evaluate()) PSGD_RETURN_IF_ERROR(EvaluateNow(next.evaluate_epoch(), clock));
    if (next.kind() == NextSegmentReply::DONE) {
      options_.log->info("done: {}", next.reason());
      return absl::OkStatus();
    }
    if (next.kind() == NextSegmentReply::WAIT) {
      if (next.reason() != waiting_for) options_.log->info("{}", next.reason());
      waiting_for = next.reason();
      if (options_.stops != nullptr && *options_.stops > 0) {
        return absl::CancelledError("stopped while waiting");
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
    if (options_.stops != nullptr && *options_.stops > 0) {
      return absl::CancelledError("asked to stop");
    }
  }
}

int Trainer::Rank(const Segment& segment) const {
  const auto& workers = segment.workers();
  return static_cast<int>(std::find(workers.begin(), workers.end(), key_.worker()) -
                          workers.begin());
}

bool Trainer::HasBatch(const Segment& segment, uint64_t clock) const {
  const uint64_t step = clock - segment.first_clock() - 1;
  return step < segment.clocks() &&
         static_cast<int64_t>(step) * segment.workers_size() + Rank(segment) <
             segment.batches_size();
}

absl::Status Trainer::RunSegment(const Segment& segment) {
  for (int index = Rank(segment); index < segment.batches_size(); index += segment.workers_size()) {
    loader_->Enqueue(segment.epoch(), segment.batches(index));
  }
  for (uint32_t step = 0; step < segment.clocks(); ++step) {
    PSGD_RETURN_IF_ERROR(Interrupted());
    const uint64_t clock = segment.first_clock() + step + 1;
    if (HasBatch(segment, clock)) {
      PSGD_RETURN_IF_ERROR(Step(segment, clock));
    } else {
      // The others have one batch more than this worker: an empty step keeps the clocks together.
      session_->EndClock(clock);
    }
  }
  ReportDamage();
  PSGD_RETURN_IF_ERROR(session_->WaitAcknowledged());
  return heartbeat_->Flush();
}

void Trainer::ReportDamage() {
  const uint64_t damaged = data_->damage ? data_->damage->count() : 0;
  if (damaged == reported_damage_) return;
  reported_damage_ = damaged;
  options_.log->warn("{} damaged samples were read and left out so far, the last: {}", damaged,
                     data_->damage->last());
}

absl::Status Trainer::PullWeights(uint64_t clock) {
  {
    StepClock waiting(&seconds_wait_);
    if (pulled_ahead_ != clock) session_->Pull(clock);
    pulled_ahead_.reset();
    PSGD_RETURN_IF_ERROR(session_->WaitPulled());
  }
  StepClock decoding(&seconds_encode_);
  PSGD_RETURN_IF_ERROR(InstallWeights());
  // One that was asked for ahead may lack the step before.
  if (clock > 0) pushed_factors_.Forget(clock - 1);
  return absl::OkStatus();
}

void Trainer::PullAhead(const Segment& segment, uint64_t clock) {
  // Never beyond a segment: between two of them the members may change.
  if (!config_.consistency().pull_ahead() || !HasBatch(segment, clock + 1)) return;
  session_->Pull(clock);
  pulled_ahead_ = clock;
}

absl::Status Trainer::InstallWeights() {
  const absl::Status installed =
      InstallPulled(codecs_, network_->spec(), placement_, session_->TakePulled(), pushed_factors_,
                    [this](int parameter) { return network_->parameter(parameter); });
  if (absl::IsOutOfRange(installed)) {
    return absl::OutOfRangeError(absl::StrCat("the server's weights are not finite numbers (",
                                              installed.message(), "); ", kDiverged));
  }
  PSGD_RETURN_IF_ERROR(installed);
  network_->InvalidateParameters();
  return absl::OkStatus();
}

absl::Status Trainer::Step(const Segment& segment, uint64_t clock) {
  PSGD_RETURN_IF_ERROR(PullWeights(clock - 1));
  PullAhead(segment, clock);
  Batch batch;
  {
    StepClock loading(&seconds_data_);
    PSGD_ASSIGN_OR_RETURN(batch, loader_->Next());
  }
  if (options_.step_delay.count() > 0) std::this_thread::sleep_for(options_.step_delay);

  const double weight_decay = heartbeat_->hyper().weight_decay();
  double encoding = 0;
  const Time start = SteadyNow();
  PSGD_ASSIGN_OR_RETURN(
      const Network::Result result,
      network_->TrainStep({batch.pixels, batch.tokens, batch.values}, batch.labels, clock, [&](int parameter) {
        StepClock timer(&encoding);
        encoded_.clear();
        encoder_->Encode(parameter, network_->gradient(parameter), network_->parameter(parameter),
                         weight_decay, clock, &encoded_);
        for (EncodedSlice& slice : encoded_) {
          if (slice.codec == CODEC_FACTORS && PullsUpdates(config_)) {
            pushed_factors_.Keep(slice.slice, clock, slice.payload);
          }
          session_->Push(clock, slice.slice, slice.codec, std::move(slice.payload),
                         std::move(slice.also));
        }
      }));
  session_->EndClock(clock);
  seconds_compute_ += Seconds(SteadyNow() - start) - encoding;
  seconds_encode_ += encoding;
  if (!std::isfinite(result.loss_sum)) {
    return absl::OutOfRangeError(absl::StrCat(
        "the loss is not a finite number at step ", clock, "; ", kDiverged));
  }
  ReportLaunches(clock, result);
  Report(segment, clock, result);
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

void Trainer::Report(const Segment& segment, uint64_t clock, const Network::Result& result) {
  const EndpointStats traffic = session_->traffic();
  const SessionStats& stats = session_->stats();
  heartbeat_->Record([&](WorkerReport* report) {
    // Not this step's: what is not acknowledged may have to be done again by another worker.
    report->set_clock(session_->AcknowledgedClock());
    // The last step of an epoch may find fewer batches than workers.
    report->set_epoch(std::min(segment.epoch() + 1.0,
                               segment.epoch_at_start() +
                                   static_cast<double>(clock - segment.first_clock()) *
                                       segment.epochs_per_clock()));
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
    report->set_seconds_wait(report->seconds_wait() + seconds_wait_);
    report->set_resent(report->resent() + stats.resent - reported_.resent);
    const auto& counts = stats.pull_staleness.counts();
    const auto& before = reported_.pull_staleness.counts();
    while (report->pull_staleness_size() < static_cast<int>(counts.size())) {
      report->add_pull_staleness(0);
    }
    for (size_t s = 0; s < counts.size(); ++s) {
      const uint64_t earlier = s < before.size() ? before[s] : 0;
      report->set_pull_staleness(s, report->pull_staleness(s) + counts[s] - earlier);
    }
    for (const auto& [reason, count] : stats.refused) {
      auto earlier = reported_.refused.find(reason);
      const uint64_t known = earlier == reported_.refused.end() ? 0 : earlier->second;
      if (count > known) (*report->mutable_refused())[reason] += count - known;
    }
  });
  seconds_data_ = seconds_compute_ = seconds_encode_ = seconds_wait_ = 0;
  reported_traffic_ = traffic;
  reported_ = stats;
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

absl::Status Trainer::SaveState(uint64_t checkpoint) {
  const double norm = encoder_->ResidualNorm();
  heartbeat_->Record([&](WorkerReport* report) { report->set_residual_norm(norm); });
  session_->SaveState(checkpoint, encoder_->CopyResiduals());
  PSGD_RETURN_IF_ERROR(session_->WaitAcknowledged());
  saved_checkpoint_ = checkpoint;
  return absl::OkStatus();
}

absl::Status Trainer::LoadState() {
  PSGD_ASSIGN_OR_RETURN(const auto residuals, session_->LoadState());
  return encoder_->RestoreResiduals(residuals);
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
  if (client_ && key_.incarnation() != 0 && !lost) {
    LeaveRequest request;
    *request.mutable_key() = key_;
    request.set_reason(status.ok() ? "the run is over" : std::string(status.message()));
    request.set_failed(!status.ok() && !absl::IsCancelled(status));
    (void)client_->Leave(request);  // the lease ends it too
  }
}

}  // namespace psgd
