// Estimates the cost of a sweep before it starts.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "experiment/plan/expand.h"
#include "experiment/report/report_runs.h"

namespace psgd {

struct SweepEstimate {
  size_t runs = 0;
  size_t done = 0;         // already in the sweep's directory
  size_t untold = 0;       // to do, with samples that only the workers' program knows
  double samples = 0;      // samples of the remaining runs, all together
  double steps = 0;        // steps of all their workers
  double dense_bytes = 0;  // bytes that they would push and pull in fp32
  double seconds = -1;     // of the remaining runs in sequence; negative: unknown
  // A lower bound on `seconds`, set if other programs slow this machine down.
  double seconds_at_best = -1;
  bool stops_early = false;  // asha may leave out part of the work
  // If no run has finished, the seconds come from trials: `tried` of `kinds` kinds of runs.
  size_t kinds = 0, tried = 0;
  std::string trouble;       // an error of a trial
  std::vector<double> left;  // samples left of each run, in order; 0: done
  // For people: each configuration that is still to do and whose codec leaves most weights out.
  std::vector<std::string> notes;
};

// The settings that decide a run's data and network.
std::string TaskKey(const Config& config);

// Opens the data and builds the network of each run, as ps-run will, to find errors early. Those of
// a program are unknown. Estimates the time from the finished runs in the sweep's directory, if
// any.
absl::StatusOr<SweepEstimate> EstimateSweep(const std::vector<PlannedRun>& runs,
                                            const std::string& dir);

// For example "12 runs, 3 of them done. To do: 1.08 M samples in ..."
std::string EstimateText(const SweepEstimate& estimate, int parallel);

}  // namespace psgd
