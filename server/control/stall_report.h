// Decides when to report that a shard waits for its journal, and when that it goes on.
#pragma once

#include <optional>

#include "common/clock.h"

namespace psgd {

// A stall is reported when it begins, and its end with the first write that succeeds. On an almost
// full disk some writes fail and others succeed, many times a second. So if a stall follows another
// at once, its end is reported only after kCalm without a stall.
class StallReport {
 public:
  static constexpr Duration kCalm = std::chrono::seconds(2);

  enum class News { kNone, kWaits, kGoesOn };

  // Called after each attempt to write.
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

  // How many stalls began since the last kWaits.
  int times() const { return times_; }

 private:
  bool stalled_ = false;
  bool told_ = false;
  bool alone_ = false;           // the last reported stall did not follow another at once
  std::optional<Time> went_on_;  // when an end was last reported
  Time last_{};
  int times_ = 0;
};

}  // namespace psgd
