// The classes or targets of rows in memory, as tables, arrays and sparse vectors have them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/status.h"
#include "data/dataset.h"
#include "data/targets.h"
#include "proto/config.pb.h"

namespace psgd {

// More different numbers mean that they are no classes.
inline constexpr size_t kMostNumberClasses = 100000;

// AUTO, in a config that nobody resolved, is CLASS. Classes are no targets: kNone.
Targets::Kind KindOf(DataConfig::TargetKind kind);

// The error of a number that is NaN, or above kLargestNumber in size.
absl::Status NotFinite(double value);

// Whether a number can be such a target. An error says why not, and what can be done.
absl::Status CheckTarget(Targets::Kind kind, double value);

// How many of the rows are for training if the last `test_fraction` is for the test. An error if
// either part is empty.
absl::StatusOr<size_t> TrainingRows(const std::string& path, size_t rows, double test_fraction);

// Names the place of a row in its file, for an error that is found after the row was read.
using PlaceOfRow = std::function<std::string(size_t row)>;

struct RowTargets {
  Targets targets;                            // kNone: the rows have labels
  int classes = 0;                            // or the number of targets
  std::vector<int32_t> labels;                // by row; empty if the rows have targets
  std::vector<float> values;                  // rows x targets
  std::vector<std::string> class_names = {};  // by label; empty if the rows have targets

  // 0 if the rows have targets.
  int32_t LabelOf(size_t row) const { return labels.empty() ? 0 : labels[row]; }
  void ReadTargets(size_t row, std::span<float> targets) const;
  void Read(size_t row, const Sample& sample) const;
};

// For people: how many classes there are, their names, and those that the test lacks. Empty without
// names. `tested`: by class.
std::string ClassesText(const std::vector<std::string>& names, const std::vector<bool>& tested);

// Lines for people: ClassesText; and, if the rows behind the first `training` are the end of the
// same file (`split`), that this file is sorted: they all have one class, which mixed rows would
// have with less than 1 % chance, or their numbers are all beyond the others.
std::string TargetsNote(const std::string& path, const RowTargets& rows, size_t training,
                        bool split);

// For people: that some classes have no training sample, where the largest label is the number of
// classes, so that one wrong label makes many. Empty: all have one. `labels`: of the training
// samples; those below 0 are not counted. `place` names the place of a label.
std::string UnusedClassesNote(std::span<const int32_t> labels, const PlaceOfRow& place);

// Whether so many rows have so many values that these are measured rather than classes, as ratings
// in halves of a star are.
bool RarelyRepeat(size_t rows, size_t values);

// The numbers of the first `training` rows are the classes, in ascending order. Errors call the
// numbers `what`, and name a row's place.
absl::StatusOr<RowTargets> NumberClasses(const std::vector<double>& numbers, size_t training,
                                         absl::string_view what, const PlaceOfRow& place);

// Checks that the numbers fit the kind, then RealTargets. Errors name a row's place.
absl::StatusOr<RowTargets> CheckedTargets(Targets::Kind kind, std::vector<std::string> names,
                                          const std::vector<double>& values, size_t training,
                                          const PlaceOfRow& place, bool standardize = true);

// Measures and normalizes kNumber by the first `training` rows, if `standardize`. `values`: rows x
// names.
// REQUIRES: the values fit the kind, which is not kNone.
RowTargets RealTargets(Targets::Kind kind, std::vector<std::string> names,
                       const std::vector<double>& values, size_t training, bool standardize = true);

}  // namespace psgd
