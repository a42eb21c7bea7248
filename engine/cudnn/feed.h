// Brings batches and weights to a device: its own stream copies them to device memory where they
// wait until the kernels of the previous step are done.
#pragma once

#include <memory>

#include "engine/cudnn/device.h"

namespace psgd::cudnn {

// REQUIRES: the device outlives the feed.
absl::StatusOr<std::unique_ptr<Feed>> MakeFeed(const Device& device, size_t bytes);

}  // namespace psgd::cudnn
