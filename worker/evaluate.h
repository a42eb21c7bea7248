// Loss and accuracy of a network over a test set.
#pragma once

#include "common/status.h"
#include "data/batch.h"
#include "data/dataset.h"
#include "engine/network.h"
#include "proto/control.pb.h"

namespace psgd {

// What the network is told of a dataset's samples.
InputShape InputShapeOf(const SampleShape& shape);

// Of sequences every token counts as a sample.
// REQUIRES: the batches are of the network's batch size.
absl::StatusOr<EvalResult> Evaluate(Network& network, EvaluationBatches& batches);

}  // namespace psgd
