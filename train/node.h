// All replicas of this process. The run says whether each is a worker of its own, or all together
// are one worker.
#pragma once

#include <vector>

#include "common/status.h"
#include "train/trainer.h"

namespace psgd {

// The options for each replica as a worker of its own. The workers share the samples, which are in
// memory once.
std::vector<TrainerOptions> WorkersOf(const TrainerOptions& all);

// Trains until the run is over. The server says what node.reduce is. With `none` each replica
// trains on a thread of its own, and the first error is returned.
absl::Status TrainNode(const TrainerOptions& options);

}  // namespace psgd
