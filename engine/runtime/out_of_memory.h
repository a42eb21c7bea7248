// What to tell when the memory of a network does not fit.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "engine/runtime/planned_network.h"

namespace psgd {

// Tensors by name with their bytes, the largest first: parameters with their gradients and copies
// in other layouts, and what is alive at the moment of a step at which the most is.
std::vector<std::pair<std::string, size_t>> LargestTensors(const PlannedNetwork& network,
                                                           size_t most);

// RESOURCE_EXHAUSTED: what the network wants, its largest tensors, and which batch would fit, with
// and without recomputation. `available` bytes were there; 0: nobody knows, an allocation failed.
absl::Status OutOfMemory(const ModelConfig& model, const InputShape& shape, int batch,
                         const NetworkOptions& options, const PlannedNetwork& network,
                         size_t available);

}  // namespace psgd
