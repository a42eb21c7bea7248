// The classes or targets of rows in memory, as tables and arrays have them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "data/dataset.h"
#include "data/targets.h"
#include "proto/config.pb.h"

namespace psgd {

// AUTO, in a config that nobody resolved, is CLASS. Classes are no targets: kNone.
Targets::Kind KindOf(DataConfig::TargetKind kind);

// Whether a number can be such a target. An error says why not, and what can be done.
absl::Status CheckTarget(Targets::Kind kind, double value);

// How many of the rows are for training if the last `test_fraction` is for the test. An error if
// either part is empty.
absl::StatusOr<size_t> TrainingRows(const std::string& path, size_t rows, double test_fraction);

struct RowTargets {
  Targets targets;              // kNone: the rows have labels
  int classes = 0;              // or the number of targets
  std::vector<int32_t> labels;  // by row; empty if the rows have targets
  std::vector<float> values;    // rows x targets

  void Read(size_t row, const Sample& sample) const;
};

// Measures and normalizes kNumber by the first `training` rows. `values`: rows x names.
// REQUIRES: the values fit the kind, which is not kNone.
RowTargets RealTargets(Targets::Kind kind, std::vector<std::string> names,
                       const std::vector<double>& values, size_t training);

}  // namespace psgd
