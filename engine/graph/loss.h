// The loss that a config asks for.
#pragma once

#include "common/sample_shape.h"
#include "engine/graph/builder.h"
#include "proto/config.pb.h"

namespace psgd {

// Adds the labels, the targets if samples have any, and the loss at the end of the network. In
// evaluation the logits of samples with one label are external. Each sample, token or pixel
// has its logits and a label. Labels are smoothed in training only.
absl::Status AddLoss(const ModelConfig& config, const SampleShape& samples, Mode mode,
                     TensorId logits, ModelGraph* model);
// Whether AddLoss can make this op.
bool IsLoss(const Op& op);

}  // namespace psgd
