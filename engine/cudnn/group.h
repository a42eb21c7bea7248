// NCCL adds up gradients of a machine's GPUs, beside the backward pass. A part is one GPU's. It has
// a stream for the sums. A bucket is 1 to about 25 MiB of gradients (engine/runtime/network.cc).
// When the kernels of a bucket of gradients are launched, that stream waits for them, by an event,
// and then makes all sums of the bucket, which NCCL launches as one. The first part's copies to the
// host and marks follow on the same stream, so each waits for its own bucket and none for the
// kernels of the next. At the end of a step the stream of the kernels waits for the sums, because
// the next step's kernels overwrite gradients. A recorded step calls NCCL between its graphs
// (recorded_step.h): a graph must end with its streams joined, so a sum in a graph would hold up
// the kernels of the next graph.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/cudnn/device.h"
#include "engine/runtime/backend.h"

namespace psgd::cudnn {

// Makes a part for each device, in their order. NCCL is loaded only here, so other runs do not need
// it. An error if NCCL is missing or a device is named twice.
absl::StatusOr<std::vector<std::unique_ptr<GroupPart>>> MakeGroup(std::span<Device* const> devices);

}  // namespace psgd::cudnn
