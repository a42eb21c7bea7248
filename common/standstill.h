// Time in which a process could hear nobody because it stood still itself.
#pragma once

#include <algorithm>
#include <optional>

#include "common/clock.h"

namespace psgd {

// A process that is stopped, or waits for a processor, hears nothing meanwhile. Who measures the
// silence of others adds what Lost() tells to the time when it heard them last.
class Standstill {
 public:
  // A longer time between two ticks is a standstill.
  explicit Standstill(Duration longest_tick) : longest_tick_(longest_tick) {}

  // How much of the time since the last call must not count. A clock that went back loses the
  // difference, so it may be negative.
  Duration Lost(Time now) {
    const Duration passed = now - last_.value_or(now);
    last_ = now;
    const Duration lost = passed - std::clamp<Duration>(passed, Duration(0), longest_tick_);
    if (lost > Duration(0)) lost_at_ = now;
    return lost;
  }
  // Whether time was lost in the last `within`.
  bool WasRecently(Duration within, Time now) const { return lost_at_ && now < *lost_at_ + within; }

 private:
  const Duration longest_tick_;
  std::optional<Time> last_, lost_at_;
};

}  // namespace psgd
