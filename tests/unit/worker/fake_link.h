// A link on a clock of its own: it carries so many bytes a second, the first of them after a pause
// at once, as a token bucket does.
#pragma once

#include <algorithm>
#include <cstddef>

#include "common/clock.h"

namespace psgd {

class FakeLink {
 public:
  FakeLink(double bytes_per_second, double round_trip_seconds, double bucket = 0)
      : rate_(bytes_per_second),
        round_trip_(round_trip_seconds),
        bucket_(bucket),
        tokens_(bucket) {}

  void SetRate(double bytes_per_second) { rate_ = bytes_per_second; }
  double now() const { return now_; }
  Time Now() const { return std::chrono::duration_cast<Time>(std::chrono::duration<double>(now_)); }
  void Wait(double seconds) { now_ += seconds; }

  // Hands it over at once; it is carried after what was handed over before.
  void Send(size_t bytes) {
    const double begin = std::max(free_, now_);
    tokens_ = std::min(bucket_, tokens_ + (begin - free_) * rate_);
    const double at_once = std::min(tokens_, static_cast<double>(bytes));
    tokens_ -= at_once;
    free_ = begin + (static_cast<double>(bytes) - at_once) / rate_;
  }
  // Until everything was carried and answered.
  void WaitAnswered() { now_ = std::max(now_, free_) + round_trip_; }

 private:
  double rate_;
  const double round_trip_;
  const double bucket_;
  double tokens_;
  double now_ = 0;
  double free_ = 0;  // when all that was handed over is through
};

}  // namespace psgd
