// The loss that a config asks for.
#pragma once

#include "engine/graph/builder.h"
#include "proto/config.pb.h"

namespace psgd {

// The result of the loss at the end of the network. Labels are smoothed in training only.
absl::StatusOr<TensorId> AddLoss(Graph* graph, const ModelConfig& config, Mode mode,
                                 TensorId logits, TensorId labels);
// Whether AddLoss can make this op.
bool IsLoss(const Op& op);

}  // namespace psgd
