// The phases of a worker's time.
#pragma once

#include <array>
#include <utility>

#include "proto/control.pb.h"

namespace psgd {

// Seconds of each phase, by its name in records and pages.
inline std::array<std::pair<const char*, double>, 6> PhasesOf(const WorkerReport& report) {
  return {{{"data", report.seconds_data()},
           {"compute", report.seconds_compute()},
           {"encode", report.seconds_encode()},
           {"wait", report.seconds_wait()},
           {"wire", report.seconds_wire()},
           {"apply", report.seconds_apply()}}};
}

// The share of time spent waiting for data; 0 if there was no time.
inline double InputStall(const WorkerReport& report) {
  double total = 0;
  for (const auto& [phase, seconds] : PhasesOf(report)) total += seconds;
  return total > 0 ? report.seconds_data() / total : 0;
}

}  // namespace psgd
