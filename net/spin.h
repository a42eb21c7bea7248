// Waits for a moment without sleep.
#pragma once

#include <sched.h>

#include <chrono>

#include "common/clock.h"

namespace psgd {

// If messages follow each other closely, this saves two context switches for each.
class Spin {
 public:
  // Returns whether `came` becomes true within 30 us. Does not wait if nothing came or left for
  // 150 us, so an idle endpoint uses no processor time. `last`: when something came or left.
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
  // A thread that yields a core gets it back only after the time slices of others that want it,
  // milliseconds later. A thread that sleeps is woken at once. So after a slow yield, Until returns
  // at once for a while, and the thread sleeps instead.
  static constexpr Duration kSlice = std::chrono::milliseconds(1);
  static constexpr Duration kRest = std::chrono::milliseconds(200);
  Time rests_until_{};
};

}  // namespace psgd
