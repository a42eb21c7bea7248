// Batches and weights on their way to a device: a stream of its own for the copy, and room on the
// device in which they wait until the kernels of the step before are done with theirs.
#pragma once

#include <memory>

#include "engine/cudnn/device.h"

namespace psgd::cudnn {

// The device outlives it.
absl::StatusOr<std::unique_ptr<Feed>> MakeFeed(const Device& device, size_t bytes);

}  // namespace psgd::cudnn
