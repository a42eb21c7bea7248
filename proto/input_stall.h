// How much of a worker's time goes into waiting for data.
#pragma once

#include "proto/control.pb.h"

namespace psgd {

// Between 0 and 1, of the time that the report accounts for: data, compute, encoding, weights.
inline double InputStall(const WorkerReport& report) {
  const double total = report.seconds_data() + report.seconds_compute() + report.seconds_encode() +
                       report.seconds_wait();
  return total > 0 ? report.seconds_data() / total : 0;
}

}  // namespace psgd
