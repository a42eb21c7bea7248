// How a trainer leaves its run. A worker whose run goes on without it pushes what its codecs left
// behind, which nobody else has; when the run itself ends, a checkpoint holds that.
#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "worker/trainer.h"

namespace psgd {
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
  client_->SetDeadline(std::min(Milliseconds(config_.cluster().deadline()),
                                std::max(DrainTimeLeft(), kGoodbye)));
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

}  // namespace psgd
