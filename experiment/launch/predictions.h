// Predictions of a run's network for new data.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/status.h"
#include "experiment/launch/trained_weights.h"
#include "experiment/record/weights_collector.h"

namespace psgd {

struct Predictions {
  size_t samples = 0;
  std::string csv;                 // a line of names, then a line a sample
  std::vector<std::string> notes;  // for people, of values that the run does not know
};

// Predicts what `path` has (data/new_samples.h). Columns are `file`, if samples are files, and
// - of classes: `class` and its `probability`, or its `output` with model.loss squared or
// smooth_l1;
// - of targets: their names. Numbers and counts are in the unit of the training data, labels are
//   probabilities.
absl::StatusOr<Predictions> PredictNew(const WeightsCollector& weights, const std::string& path,
                                       const EvaluateOptions& options);

}  // namespace psgd
