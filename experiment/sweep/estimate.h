// What a sweep will cost, before it is started.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "experiment/report/report_runs.h"
#include "experiment/sweep/expand.h"

namespace psgd {

struct SweepEstimate {
  size_t runs = 0;
  size_t done = 0;         // in its directory already
  double samples = 0;      // that the others train on, all together
  double steps = 0;        // of all their workers
  double dense_bytes = 0;  // that they would push and pull in fp32
  double seconds =
      -1;  // of all others one after the other; negative: none has finished, so there is no telling
};

// Opens the data and builds the network of each, as ps-run will: what is wrong with one is found
// here. The time is told from what finished in the sweep's directory, if there is one.
absl::StatusOr<SweepEstimate> EstimateSweep(const std::vector<PlannedRun>& runs,
                                            const std::string& dir);

// "12 runs, 3 of them done. The others: 1.08 M samples, ..."
std::string EstimateText(const SweepEstimate& estimate, int parallel);

}  // namespace psgd
