// Where a worker's time goes.
#pragma once

#include <array>
#include <utility>

#include "proto/control.pb.h"

namespace psgd {

// Seconds of each, by the name that records and pages have for it.
inline std::array<std::pair<const char*, double>, 6> PhasesOf(const WorkerReport& report) {
  return {{{"data", report.seconds_data()},
           {"compute", report.seconds_compute()},
           {"encode", report.seconds_encode()},
           {"wait", report.seconds_wait()},
           {"wire", report.seconds_wire()},
           {"apply", report.seconds_apply()}}};
}

// The share of that time that goes into waiting for data; 0 where there was none.
inline double InputStall(const WorkerReport& report) {
  double total = 0;
  for (const auto& [phase, seconds] : PhasesOf(report)) total += seconds;
  return total > 0 ? report.seconds_data() / total : 0;
}

}  // namespace psgd
