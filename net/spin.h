// Waiting for a moment without sleep.
#pragma once

#include <sched.h>

#include <chrono>

#include "common/clock.h"

namespace psgd {

// Where things follow each other closely, this saves two switches.
class Spin {
 public:
  // Whether `came` says so within 30 us. It does not try if nothing came or left for 150 us, so an
  // idle endpoint uses no processor time.
  template <typename Came>
  bool Until(Time last, Came came) {
    constexpr Duration kLongest = std::chrono::microseconds(30);
    constexpr Duration kClose = std::chrono::microseconds(150);
    const Time start = SteadyNow();
    if (start - last > kClose || start < rests_until_) return false;
    for (Time now = start; now - start < kLongest;) {
      if (came()) return true;
      ::sched_yield();
      const Time back = SteadyNow();
      if (back - now > kSlice) rests_until_ = back + kRest;
      now = back;
    }
    return false;
  }

 private:
  // Who yields a core that others want gets it back after their slices, milliseconds later. Who
  // sleeps is woken at once, so on a crowded machine this one sleeps for a while.
  static constexpr Duration kSlice = std::chrono::milliseconds(1);
  static constexpr Duration kRest = std::chrono::milliseconds(200);
  Time rests_until_{};
};

}  // namespace psgd
