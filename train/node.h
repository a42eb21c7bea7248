// All replicas of this process, as the run wants them: each a worker of its own, or together one.
#pragma once

#include <vector>

#include "common/status.h"
#include "train/trainer.h"

namespace psgd {

// One for each replica, as a worker of its own. They share the samples, which are in memory once.
std::vector<TrainerOptions> WorkersOf(const TrainerOptions& all);

// Trains until the run is over. The server says what node.reduce is; with `none` each replica
// trains on a thread of its own, and the first error is told.
absl::Status TrainNode(const TrainerOptions& options);

}  // namespace psgd
