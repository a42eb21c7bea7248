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

}  // namespace psgd
