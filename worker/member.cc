#include "worker/member.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "compression/policy.h"
#include "net/wire_format.h"
#include "proto/local_steps.h"
#include "proto/trained.h"
#include "worker/member_security.h"

namespace psgd {
namespace {

// The norm takes a pass over all residuals, which may lie on a GPU.
constexpr Duration kResidualPeriod = std::chrono::seconds(5);

// What a step counts for in a report. `dense_bytes`: of all weights as fp32.
WorkerReport CountsOf(const StepReport& step, uint64_t dense_bytes) {
  WorkerReport counts;
  if (!step.empty) {
    counts.set_steps(1);
    counts.set_bytes_pushed_dense(dense_bytes);
  }
  counts.set_bytes_pulled_dense(dense_bytes);
  counts.set_samples(step.samples);
  counts.set_loss_sum(step.loss_sum);
  counts.set_correct(step.correct);
  return counts;
}

}  // namespace

Member::Member(MemberOptions options)
    : options_(std::move(options)),
      control_({.server = options_.server,
                .find = options_.find,
                .deadline = options_.connect_deadline,
                .interrupted = [this] { return Interrupted(); },
                .credentials = options_.credentials,
                .on_wait = [this](const std::string& text) { options_.log->warn("{}", text); }}),
      curve_(MakeCurveKeys()) {}

Member::~Member() {
  Close();
  control_.Cancel();
  if (heartbeat_) heartbeat_->Stop();
}

absl::Status Member::Interrupted() const {
  if (closing_) return absl::CancelledError("stopped");
  if (options_.interrupted) PSGD_RETURN_IF_ERROR(options_.interrupted());
  return heartbeat_ ? heartbeat_->status() : absl::OkStatus();
}

absl::Status Member::Join() {
  JoinRequest join;
  join.set_name(options_.name);
  join.set_replaces(options_.replaces);
  join.set_device(options_.device);
  join.set_protocol(kProtocolVersion);
  join.set_local_steps(true);
  join.set_wanted(options_.wanted);
  join.set_curve_key(curve_.public_key);
  PSGD_ASSIGN_OR_RETURN(joined_, control_.Join(join));
  config_ = joined_.config();
  control_.SetDeadline(Milliseconds(config_.cluster().deadline()));
  control_.SetToken(joined_.token());
  options_.log->info("joined {} at {} as worker {}, incarnation {}", joined_.run_name(),
                     options_.server, key().worker(), key().incarnation());
  return absl::OkStatus();
}

void Member::KeepLease() {
  heartbeat_ = std::make_unique<Heartbeat>(&control_, joined_, options_.log);
  heartbeat_->Start();
}

void Member::Registered(const RegisterReply& reply, uint64_t batches_per_epoch) {
  placement_ = reply.placement();
  dense_bytes_ = 0;
  for (const SliceSpec& slice : placement_.slices()) dense_bytes_ += slice.count() * sizeof(float);
  heartbeat_->SetEndpoints({placement_.endpoints().begin(), placement_.endpoints().end()});
  heartbeat_->SetHyper(reply.hyper());
  // Each of the workers takes a batch in a step.
  *config_.mutable_compression() =
      InSteps(config_.compression(),
              static_cast<double>(batches_per_epoch) / std::max(1, config_.cluster().workers()));
}

absl::Status Member::Connect(const Connection& connection) {
  encoder_ = connection.encoder;
  TransportOptions transport;
  transport.log = options_.log;
  // A slower way must be found before the deadline ends the worker.
  transport.patience =
      std::min<Duration>(transport.patience, Milliseconds(config_.cluster().deadline()) / 2);
  transport.security = MemberSecurity(options_.credentials, options_.server, curve_, joined_);
  PSGD_ASSIGN_OR_RETURN(transport_, MakeTransport(config_.cluster().transport(), transport));
  PSGD_ASSIGN_OR_RETURN(
      std::unique_ptr<Endpoint> endpoint,
      transport_->Connect({placement_.endpoints().begin(), placement_.endpoints().end()}));
  SessionOptions session = SessionOptionsOf(config_, key());
  session.on_acknowledged = connection.on_acknowledged;
  core_ = std::make_unique<WorkerCore>(session, PullsAhead(config_.consistency()), placement_,
                                       SteadyNow(), connection.at_end, OnDrainOf(config_));
  session_ = std::make_unique<Session>(
      &core_->session(), std::move(endpoint),
      [this, also = connection.interrupted]() -> absl::Status {
        if (also) PSGD_RETURN_IF_ERROR(also());
        return Interrupted();
      },
      [this] { return ShardsMoved(); }, connection.until);
  autotune_ = std::make_unique<Autotune>(
      AutotuneOptions{.compression = config_.compression(),
                      .worker = key().worker(),
                      .log = options_.log,
                      .report =
                          [this](const CodecChoices& choices) {
                            heartbeat_->Record([&](WorkerReport* report) {
                              *report->mutable_choices() = choices;
                            });
                          }},
      encoder_, session_.get());
  return absl::OkStatus();
}

absl::StatusOr<std::optional<MovedShards>> Member::ShardsMoved() const {
  const auto addresses = heartbeat_->TakeMove();
  if (!addresses) return std::nullopt;
  MovedShards moved{nullptr, *addresses};
  PSGD_ASSIGN_OR_RETURN(moved.endpoint, transport_->Connect(*addresses));
  return moved;
}

absl::StatusOr<NextSegmentReply> Member::AskSegment(const task::AskSegment& ask) {
  PSGD_ASSIGN_OR_RETURN(NextSegmentReply next, control_.NextSegment(ask.request));
  if (next.has_leaders()) heartbeat_->SetLeaders(next.leaders());
  return next;
}

absl::StatusOr<bool> Member::LeaveWithoutResidual() {
  PSGD_ASSIGN_OR_RETURN(const double norm, encoder_->ResidualNorm());
  if (norm != 0) return false;
  core_->LeaveNow();
  return true;
}

absl::Status Member::RestoreResiduals(const std::map<uint32_t, Bytes>& loaded) {
  PSGD_ASSIGN_OR_RETURN(const double dropped, encoder_->RestoreResiduals(loaded));
  if (dropped == 0) return absl::OkStatus();
  options_.log->warn(
      "the checkpoint's residual, of norm {}, is dropped: no codec of this run takes it", dropped);
  heartbeat_->Record([&](WorkerReport* report) { report->set_residual_norm_lost(dropped); });
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::pair<uint32_t, Bytes>>> Member::SaveResiduals() {
  PSGD_RETURN_IF_ERROR(ReportResidual());
  return encoder_->CopyResiduals();
}

absl::Status Member::ReportResidual() {
  PSGD_ASSIGN_OR_RETURN(const double norm, encoder_->ResidualNorm());
  heartbeat_->Record([&](WorkerReport* report) { report->set_residual_norm(norm); });
  residual_reported_ = SteadyNow();
  return absl::OkStatus();
}

absl::Status Member::Report(const task::Report& report) {
  if (SteadyNow() - residual_reported_ >= kResidualPeriod) PSGD_RETURN_IF_ERROR(ReportResidual());
  const EndpointStats traffic = session_->traffic();
  heartbeat_->Record([&](WorkerReport* next) {
    next->set_clock(report.clock);
    // Local steps are reported before the exchange that ends them.
    session_report_.AddTo(traffic, core_->session().stats(), next);
  });
  return heartbeat_->Flush();
}

absl::StatusOr<GivenResidual> Member::GiveResidual(const task::GiveResidual& give) {
  PSGD_ASSIGN_OR_RETURN(const std::vector<FlushedSlice> flushed, encoder_->Flush());
  double squares = 0;
  for (const FlushedSlice& slice : flushed) {
    squares += slice.squared_norm;
    session_->Push(give.clock, slice.encoded);
  }
  core_->GaveResidual(!flushed.empty(), SteadyNow());
  GivenResidual given;
  given.any = !flushed.empty();
  given.norm = std::sqrt(squares);
  given.pushed = session_->WaitUntil([this] { return core_->Advance(SteadyNow()); });
  const std::vector<uint32_t> in_doubt = core_->session().SlicesInDoubt(give.clock);
  const std::set<uint32_t> lost(in_doubt.begin(), in_doubt.end());
  double left = 0;
  for (const FlushedSlice& slice : flushed) {
    if (lost.contains(slice.encoded.slice)) left += slice.squared_norm;
  }
  given.norm_left = std::sqrt(left);
  residual_norm_left_ = given.norm_left;
  if (given.pushed.ok()) {
    heartbeat_->Record([](WorkerReport* report) { report->set_residual_norm(0); });
    residual_reported_ = SteadyNow();
  }
  return given;
}

void Member::ReportStep(const StepReport& step, const std::function<void(WorkerReport*)>& more) {
  const EndpointStats traffic = session_->traffic();
  const WorkerReport counts = CountsOf(step, dense_bytes_);
  if (TakesLocalSteps(config_.local())) AddSteps(counts, &unpushed_);
  heartbeat_->Record([&](WorkerReport* report) {
    // Not this step's: what is not acknowledged may have to be done again by another worker.
    report->set_clock(core_->session().AcknowledgedClock());
    AddSteps(counts, report);
    if (unpushed_.steps() > 0) *report->mutable_unpushed() = unpushed_;
    if (step.samples > 0 && !std::exchange(reported_loss_, true)) {
      report->set_first_loss(step.loss_sum / static_cast<double>(step.samples));
    }
    session_report_.AddTo(traffic, core_->session().stats(), report);
    report->set_seconds_data(report->seconds_data() + step.seconds_data);
    report->set_seconds_compute(report->seconds_compute() + step.seconds_compute);
    report->set_seconds_encode(report->seconds_encode() + step.seconds_encode);
    report->set_seconds_wait(report->seconds_wait() + step.waited.wait);
    report->set_seconds_wire(report->seconds_wire() + step.waited.wire);
    report->set_seconds_apply(report->seconds_apply() + step.waited.apply);
    if (more) more(report);
  });
}

void Member::KeepLocalSteps() {
  unpushed_.Clear();
  heartbeat_->Record([](WorkerReport* report) { report->mutable_unpushed()->Clear(); });
}

void Member::Leave(const absl::Status& status, const Farewell& farewell) {
  const bool reported =
      !heartbeat_ || (status.ok() && Interrupted().ok() && heartbeat_->Flush().ok());
  Close();
  const bool silent = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  const bool lost = silent || (heartbeat_ && !heartbeat_->status().ok());
  if (lost) control_.Cancel();
  if (heartbeat_) heartbeat_->Stop();
  if (lost || key().incarnation() == 0) return;
  LeaveRequest request;
  *request.mutable_key() = key();
  request.set_reason(farewell.reason);
  request.set_failed(farewell.failed);
  request.set_unreported(!reported);
  if (residual_norm_left_) request.set_residual_norm(*residual_norm_left_);
  if (farewell.limit) control_.SetDeadline(*farewell.limit);
  (void)control_.Leave(request);  // the lease ends it, too
}

}  // namespace psgd
