// When to say that a shard waits for its journal, and when that it goes on.
#pragma once

#include "common/clock.h"

namespace psgd {

// On a disk that is almost full some writes fail and others do not, many times a second: that is one piece of news
// when it begins, and one when it has been over for a while.
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
      return News::kWaits;
    }
    if (!told_ || stalled || now - last_ < kCalm) return News::kNone;
    told_ = false;
    return News::kGoesOn;
  }

  // How often it waited since the last kWaits.
  int times() const { return times_; }

 private:
  bool stalled_ = false;
  bool told_ = false;
  Time last_{};
  int times_ = 0;
};

}  // namespace psgd
