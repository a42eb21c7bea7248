// The outputs of a network for samples.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "common/status.h"
#include "data/batch.h"
#include "engine/runtime/replicas.h"

namespace psgd {

// Calls take(outputs) for each of the `samples` samples, in order. Unimplemented: the network has
// an output for each token or pixel. `threads` prepare batches while the network computes.
// REQUIRES: the batches are of the network's batch size; threads is at least 1.
absl::Status Predict(Replicas& network, EvaluationBatches& batches, size_t samples, int threads,
                     const std::function<void(std::span<const float>)>& take);

}  // namespace psgd
