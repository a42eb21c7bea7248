// Notices that a link has become another since it was measured: pushes take much longer, or much
// shorter, than they should, and do so for some steps. No IO: time is handed in.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "common/clock.h"
#include "worker/link_speed.h"

namespace psgd {

// What a step's pushes should take is what a link of the measured speed would, to which they are
// handed when they are pushed, times what the first steps after the measurement showed it to be off
// by: other workers, the shards' own work. Not thread-safe.
class LinkWatch {
 public:
  // Steps from which that is learned, and as many in a row must then be off.
  static constexpr int kSteps = 5;
  // By so many times, and by so much.
  static constexpr double kFactor = 2;
  static constexpr double kSlackSeconds = 0.005;

  // Nothing is noticed before the first measurement.
  void Measured(const LinkSpeed& speed);

  // One step: its pushes, then when the last of them was acknowledged, or that this is not known.
  void Pushed(size_t bytes, Time now);
  void Acknowledged(Time at);
  void Missed() { first_.reset(); }

  // Since the last measurement.
  bool changed() const { return slower_ >= kSteps || faster_ >= kSteps; }

 private:
  void Compare(double took, double expected);

  LinkSpeed speed_;
  std::optional<Time> first_;  // push of this step
  double free_ = 0;            // when the link is through with all of them, in seconds after that
  std::vector<double> first_ratios_;
  double usual_ = 0;             // median of these, once there are enough
  int slower_ = 0, faster_ = 0;  // steps in a row
};

}  // namespace psgd
