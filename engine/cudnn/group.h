// Gradients of the GPUs of a node, added up by NCCL on the streams that make them.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/cudnn/device.h"
#include "engine/runtime/backend.h"

namespace psgd::cudnn {

// A part for each device, in their order. NCCL is looked for only here: GPUs that are not reduced
// need none. An error where it is not to be found, or where a device is named twice.
absl::StatusOr<std::vector<std::unique_ptr<GroupPart>>> MakeGroup(
    std::span<const Device* const> devices);

}  // namespace psgd::cudnn
