#include "worker/link_watch.h"

#include <algorithm>

#include "common/median.h"

namespace psgd {

void LinkWatch::Measured(const LinkSpeed& speed) {
  speed_ = speed;
  first_.reset();
  first_ratios_.clear();
  slower_ = faster_ = 0;
}

void LinkWatch::Pushed(size_t bytes, Time now) {
  if (speed_.bytes_per_second == 0) return;
  if (!first_) {
    first_ = now;
    free_ = 0;
  }
  free_ = std::max(free_, Seconds(now - *first_)) +
          static_cast<double>(bytes) / speed_.bytes_per_second;
}

void LinkWatch::Acknowledged(Time at) {
  if (!first_) return;
  const double took = Seconds(at - *first_);
  const double expected = free_ + speed_.round_trip_seconds;
  first_.reset();
  if (took <= 0 || expected <= 0) return;
  if (first_ratios_.size() < kSteps) {
    first_ratios_.push_back(took / expected);
    if (first_ratios_.size() == kSteps) usual_ = Median(first_ratios_);
    return;
  }
  Compare(took, expected * usual_);
}

void LinkWatch::Compare(double took, double expected) {
  const bool slower = took > kFactor * expected + kSlackSeconds;
  const bool faster = expected > kFactor * took + kSlackSeconds;
  slower_ = slower ? slower_ + 1 : 0;
  faster_ = faster ? faster_ + 1 : 0;
}

}  // namespace psgd
