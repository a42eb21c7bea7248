// Estimates how long runs take by trying some of them briefly, before any run has finished.
#pragma once

#include <atomic>
#include <vector>

#include "experiment/plan/expand.h"
#include "experiment/plan/resources.h"
#include "experiment/sweep/estimate.h"

namespace psgd {

// Starts one run of each remaining kind (network, data, batch, workers and launch), at most six
// kinds, about three seconds each, in a temporary folder. Sets the estimate's seconds, or its
// trouble. `stops` above 0 ends the trial.
void EstimateByTrial(const std::vector<PlannedRun>& runs, const Share& share,
                     const std::atomic<int>* stops, SweepEstimate* estimate);

}  // namespace psgd
