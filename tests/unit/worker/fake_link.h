// A link with its own clock and a rate in bytes per second. Like a token bucket, it carries the
// first bytes after a pause at once.
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

  // Returns at once. The link carries the bytes after all earlier bytes.
  void Send(size_t bytes) {
    const double begin = std::max(free_, now_);
    tokens_ = std::min(bucket_, tokens_ + (begin - free_) * rate_);
    const double at_once = std::min(tokens_, static_cast<double>(bytes));
    tokens_ -= at_once;
    free_ = begin + (static_cast<double>(bytes) - at_once) / rate_;
  }
  // Waits until all bytes are carried and answered.
  void WaitAnswered() { now_ = std::max(now_, free_) + round_trip_; }

 private:
  double rate_;
  const double round_trip_;
  const double bucket_;
  double tokens_;
  double now_ = 0;
  double free_ = 0;  // when all bytes so far are carried
};

}  // namespace psgd
