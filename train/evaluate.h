// Loss and accuracy of a network over a test set.
#pragma once

#include "common/status.h"
#include "data/batch.h"
#include "data/dataset.h"
#include "engine/runtime/replicas.h"
#include "proto/control.pb.h"

namespace psgd {

// What the network is told of a dataset's samples.
InputShape InputShapeOf(const SampleShape& shape);

// Of test sets by ranks (SampleShape::group) also the measures of train/ranking.h.
// Of sequences every token counts as a sample, of images with a label each pixel every pixel.
// `threads` prepare batches while the network computes.
// REQUIRES: the batches are of the network's batch size; threads is at least 1.
absl::StatusOr<EvalResult> Evaluate(Replicas& network, EvaluationBatches& batches, int threads);

}  // namespace psgd
