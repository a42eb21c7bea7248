// A trainer's own state in checkpoints: what its codecs left behind.
#include "worker/trainer.h"

namespace psgd {

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
  options_.log->warn("the checkpoint's residual, of norm {}, is dropped: no codec of this run takes it",
                     dropped);
  heartbeat_->Record([&](WorkerReport* report) { report->set_residual_norm_lost(dropped); });
  return absl::OkStatus();
}

}  // namespace psgd
