// Loss and accuracy of a network over a test set.
#pragma once

#include "common/status.h"
#include "data/batch.h"
#include "engine/network.h"
#include "proto/control.pb.h"

namespace psgd {

// REQUIRES: the batches are of the network's batch size.
absl::StatusOr<EvalResult> Evaluate(Network& network, EvaluationBatches& batches);

}  // namespace psgd
