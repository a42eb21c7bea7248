// Loss, accuracy and other measures of a network over a test set.
#pragma once

#include <string>

#include "common/status.h"
#include "data/batch.h"
#include "data/dataset.h"
#include "data/targets.h"
#include "engine/runtime/replicas.h"
#include "proto/control.pb.h"

namespace psgd {

// What the network is told of a dataset's samples.
InputShape InputShapeOf(const SampleShape& shape);

// Of test sets by ranks (SampleShape::group) also the measures of train/ranking.h. Of targets,
// those of train/target_measures.h in place of the accuracy. Of sequences every token counts as a
// sample, of images with a label each pixel every pixel. `threads` prepare batches while the
// network computes. REQUIRES: the batches are of the network's batch size; threads is at least 1.
absl::StatusOr<EvalResult> Evaluate(Replicas& network, EvaluationBatches& batches,
                                    const Targets& targets, int threads);

// For the log: "accuracy 0.9123, loss 0.2811", or "loss 0.2811, mae 0.3, rmse 0.5".
std::string ResultText(const EvalResult& result);

}  // namespace psgd
