// What a sweep will cost, before it is started.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "experiment/plan/expand.h"
#include "experiment/report/report_runs.h"

namespace psgd {

struct SweepEstimate {
  size_t runs = 0;
  size_t done = 0;         // in its directory already
  double samples = 0;      // that the others train on, all together
  double steps = 0;        // of all their workers
  double dense_bytes = 0;  // that they would push and pull in fp32
  double seconds = -1;     // of all others one after the other; negative: there is no telling
  // Where others take so much of this machine that those are more than it would be: no less than
  // this.
  double seconds_at_best = -1;
  bool stops_early = false;  // asha may leave out some of it
  // Whence the seconds are, where none has finished: of so many kinds of runs so many were tried.
  size_t kinds = 0, tried = 0;
  std::string trouble;       // with one of those
  std::vector<double> left;  // samples of each run, in order; 0: it is done
};

// What decides about a run's data and network.
std::string TaskKey(const Config& config);

// Opens the data and builds the network of each, as ps-run will: what is wrong with one is found
// here. The time is told from what finished in the sweep's directory, if there is one.
absl::StatusOr<SweepEstimate> EstimateSweep(const std::vector<PlannedRun>& runs,
                                            const std::string& dir);

// "12 runs, 3 of them done. The others: 1.08 M samples, ..."
std::string EstimateText(const SweepEstimate& estimate, int parallel);

}  // namespace psgd
