// All replicas of this process, as the run wants them: each a worker of its own, or together one.
#pragma once

#include "common/status.h"
#include "worker/trainer.h"

namespace psgd {

// Trains until the run is over. The server says what node.reduce is; with `none` each replica
// trains on a thread of its own, and the first error is told.
absl::Status TrainNode(const TrainerOptions& options);

}  // namespace psgd
