// How long runs take, from trying some of them for a moment: before any has finished nothing else
// can tell.
#pragma once

#include <atomic>
#include <vector>

#include "experiment/plan/expand.h"
#include "experiment/plan/resources.h"
#include "experiment/sweep/estimate.h"

namespace psgd {

// Starts the first of each kind of run that is left (network, data, batch, workers and launch), at
// most six kinds, for about three seconds each, in a temporary folder; sets the estimate's seconds,
// or its trouble. `stops` above 0 ends it.
void EstimateByTrial(const std::vector<PlannedRun>& runs, const Share& share,
                     const std::atomic<int>* stops, SweepEstimate* estimate);

}  // namespace psgd
