// NCCL adds up gradients of a node's GPUs, on the streams that make them.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/cudnn/device.h"
#include "engine/runtime/backend.h"

namespace psgd::cudnn {

// Makes a part for each device, in their order. NCCL is loaded only here, so other runs do not need
// it. An error if NCCL is missing or a device is named twice.
absl::StatusOr<std::vector<std::unique_ptr<GroupPart>>> MakeGroup(
    std::span<const Device* const> devices);

}  // namespace psgd::cudnn
