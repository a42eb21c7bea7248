// Loss, accuracy and other measures of a network over a test set.
#pragma once

#include <string>

#include "common/status.h"
#include "data/batch.h"
#include "data/dataset.h"
#include "data/targets.h"
#include "engine/runtime/replicas.h"
#include "proto/config.pb.h"
#include "proto/control.pb.h"

namespace psgd {

// Besides loss and accuracy:
// - of test sets by ranks (SampleShape::group), the measures of train/ranking.h;
// - of targets, those of train/target_measures.h in place of the accuracy;
// - of samples with one of two classes, the auc of train/area_under_curve.h;
// - of tokens under cross-entropy, the perplexity: exp(loss).
// Of sequences with a label each token every token counts as a sample, of images with a label each
// pixel every pixel. `loss`: of the network. `threads` prepare batches while the network computes.
// REQUIRES: the batches are of the network's batch size; threads is at least 1.
absl::StatusOr<EvalResult> Evaluate(Replicas& network, EvaluationBatches& batches,
                                    const Targets& targets, ModelConfig::Loss loss, int threads);

}  // namespace psgd
