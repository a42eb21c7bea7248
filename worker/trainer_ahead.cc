// How a trainer gets the weights of the next step while this one computes (consistency.pull_ahead).
#include <thread>

#include "worker/trainer.h"

namespace psgd {
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
    options_.log->info("weights pulled ahead reach the GPU between the steps: a second copy of them there "
                       "takes {}", std::string(room.message()));
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

}  // namespace psgd
