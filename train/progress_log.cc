#include "train/progress_log.h"

#include <algorithm>

namespace psgd {
namespace {

constexpr Duration kBetweenLines = std::chrono::seconds(10);

}  // namespace

void ProgressLog::Add(uint64_t clock, uint64_t samples, double loss_sum, double wait, Time now) {
  ++all_steps_;
  if (since_ == Time{}) {
    since_ = now;
    return;
  }
  ++steps_;
  samples_ += samples;
  loss_sum_ += loss_sum;
  wait_ += wait;
  if (now < since_ + kBetweenLines) return;
  const double seconds = Seconds(now - since_);
  const double counted = static_cast<double>(std::max<uint64_t>(samples_, 1));
  log_->info("clock {}: {} steps in {:.1f} s, loss {:.4f}, {:.0f} samples/s, {:.0f} % waiting",
             clock, steps_, seconds, loss_sum_ / counted, static_cast<double>(samples_) / seconds,
             100 * wait_ / seconds);
  since_ = now;
  steps_ = samples_ = 0;
  loss_sum_ = wait_ = 0;
}

void ProgressLog::ReportLaunches(uint64_t clock, const Network::Result& result,
                                 const Replicas& network, bool on_gpu) {
  constexpr int kSettled = 3;  // steps after which all are replayed, if any are
  if (on_gpu && ++gpu_steps_ == kSettled) {
    if (!network.note().empty()) log_->info(network.note());
    const absl::Status& recorded = network.recorded();
    if (recorded.ok()) {
      log_->info("steps are recorded: each is one launch");
    } else {
      log_->warn("steps are launched kernel by kernel: {}", recorded.ToString());
    }
  }
  if (result.repeated == 0) return;
  repeated_steps_ += result.repeated;
  log_->info(
      "step {}: gradients left fp16 and were computed again, now with a loss scale of {}; {} times "
      "in {} steps",
      clock, network.loss_scale(), repeated_steps_, gpu_steps_);
}

void ProgressLog::ReportDamage(const DamageCount* damage) {
  const uint64_t damaged = damage != nullptr ? damage->count() : 0;
  if (damaged == reported_damage_) return;
  reported_damage_ = damaged;
  log_->warn("{} damaged samples were read and left out so far, the last: {}", damaged,
             damage->last());
}

}  // namespace psgd
