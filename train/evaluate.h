// Loss, accuracy and other measures of a network over a test set.
#pragma once

#include "common/status.h"
#include "data/batch.h"
#include "data/dataset.h"
#include "data/targets.h"
#include "engine/runtime/replicas.h"
#include "proto/config.pb.h"
#include "proto/control.pb.h"

namespace psgd {

// Measures the loss and the accuracy, and also:
// - for test sets by ranks (SampleShape::group), the measures of train/ranking.h;
// - for targets, those of train/target_measures.h in place of the accuracy;
// - for samples with one of two classes, the auc of train/area_under_curve.h;
// - for tokens under cross-entropy, the perplexity: exp(loss).
// Where each token of a sequence or each pixel of an image has a label, each of them counts as a
// sample. `loss`: of the network. `threads` prepare batches while the network computes.
// REQUIRES: the batches are of the network's batch size; threads is at least 1.
absl::StatusOr<EvalResult> Evaluate(Replicas& network, EvaluationBatches& batches,
                                    const Targets& targets, ModelConfig::Loss loss, int threads);

}  // namespace psgd
