// When to say that a shard waits for its journal, and when that it goes on.
#pragma once

#include <optional>

#include "common/clock.h"

namespace psgd {

// A stall is told when it begins, and its end with the first write that succeeds. On a disk that is
// almost full some writes fail and others do not, many times a second: the end of a stall that
// follows another at once is told when it has been over for a while.
class StallReport {
 public:
  static constexpr Duration kCalm = std::chrono::seconds(2);

  enum class News { kNone, kWaits, kGoesOn };

  // After each attempt to write.
  News See(bool stalled, Time now) {
    const bool begins = stalled && !stalled_;
    stalled_ = stalled;
    if (stalled) last_ = now;
    if (begins) ++times_;
    if (begins && !told_) {
      told_ = true;
      times_ = 1;
      alone_ = !went_on_ || now - *went_on_ >= kCalm;
      return News::kWaits;
    }
    if (!told_ || stalled || (!alone_ && now - last_ < kCalm)) return News::kNone;
    told_ = false;
    went_on_ = now;
    return News::kGoesOn;
  }

  // How often it waited since the last kWaits.
  int times() const { return times_; }

 private:
  bool stalled_ = false;
  bool told_ = false;
  bool alone_ = false;           // the last that was told did not follow another at once
  std::optional<Time> went_on_;  // when that was last told
  Time last_{};
  int times_ = 0;
};

}  // namespace psgd
