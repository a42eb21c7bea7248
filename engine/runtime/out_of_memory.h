// The error of a network whose memory does not fit.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "engine/runtime/planned_network.h"

namespace psgd {

// Names and bytes of at most `most` tensors, the largest first: parameters with their gradients and
// copies in other layouts, and the buffers alive at the fullest node of a step.
std::vector<std::pair<std::string, size_t>> LargestTensors(const PlannedNetwork& network,
                                                           size_t most);

// RESOURCE_EXHAUSTED with the bytes that the network needs, its largest tensors, and the batch that
// fits with and without recomputation. `available`: free bytes; 0: unknown, an allocation failed.
absl::Status OutOfMemory(const ModelConfig& model, const SampleShape& shape, int batch,
                         const NetworkOptions& options, const PlannedNetwork& network,
                         size_t available);

}  // namespace psgd
