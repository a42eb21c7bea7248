// Notices that a link has changed since it was measured: in several steps in a row, pushes take
// much longer or much shorter than expected. No IO: the caller hands in the time.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "common/clock.h"
#include "worker/link_speed.h"

namespace psgd {

// The expected time of a step's pushes is the time that a link of the measured speed would take,
// times a usual ratio. That ratio is learned from the first steps after the measurement, because
// other workers and the shards' own work slow pushes down, too. Not thread-safe.
class LinkWatch {
 public:
  // The ratio is learned from so many steps. After that, so many steps in a row must deviate.
  static constexpr int kSteps = 5;
  // A step deviates if one time is longer than the other by this factor and this many seconds.
  static constexpr double kFactor = 2;
  static constexpr double kSlackSeconds = 0.005;

  // Nothing is noticed before the first measurement.
  void Measured(const LinkSpeed& speed);

  // Called in each step: Pushed for each of its pushes, then Acknowledged with the time at which
  // the last push was acknowledged, or Missed if that time is not known.
  void Pushed(size_t bytes, Time now);
  void Acknowledged(Time at);
  void Missed() { first_.reset(); }

  // Whether the link has changed since the last measurement.
  bool changed() const { return slower_ >= kSteps || faster_ >= kSteps; }

 private:
  void Compare(double took, double expected);

  LinkSpeed speed_;
  std::optional<Time> first_;  // when this step pushed first
  double free_ = 0;            // when the link has carried all its pushes, in seconds after first_
  std::vector<double> first_ratios_;
  double usual_ = 0;             // median of first_ratios_, once there are enough
  int slower_ = 0, faster_ = 0;  // steps in a row that deviate
};

}  // namespace psgd
