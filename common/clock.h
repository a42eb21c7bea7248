// Time as a parameter, so that protocol cores can run on simulated time.
#pragma once

#include <chrono>
#include <cstdint>

namespace psgd {

using Duration = std::chrono::nanoseconds;
// Time since an arbitrary fixed point of the process or the simulation.
using Time = std::chrono::nanoseconds;

inline Time SteadyNow() {
  return std::chrono::duration_cast<Time>(std::chrono::steady_clock::now().time_since_epoch());
}

inline double Seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

inline Duration Milliseconds(int64_t n) { return std::chrono::milliseconds(n); }

}  // namespace psgd
