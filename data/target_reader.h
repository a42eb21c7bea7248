// Reads the target columns of a table.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/status.h"
#include "data/column_reader.h"
#include "data/row_targets.h"

namespace psgd {

// More numbers mean that a column is to be predicted as a number.
inline constexpr size_t kMostColumnClasses = 1000;

// Not thread-safe.
class TargetReader {
 public:
  // kNone: the classes of one column, or of folders. REQUIRES: `names` has the columns, one if
  // kNone, and none of folders.
  // `standardize`: as of RealTargets.
  TargetReader(Targets::Kind kind, std::vector<std::string> names, bool standardize = true)
      : kind_(kind), names_(std::move(names)), standardize_(standardize) {}

  // Adds a field. Calls go through the columns, row by row. An error says what is wrong with it.
  absl::Status Add(absl::string_view field);

  // The first `training` rows are measured, and have all classes, in the order of their numbers or
  // else of their names.
  absl::StatusOr<RowTargets> Finish(size_t training, const PlaceOfRow& place) &&;

 private:
  absl::Status AddClass(absl::string_view field);
  // Whether the classes of a column are rather numbers to predict: many fractions, few of them
  // twice.
  bool HasRealNumbers() const;
  absl::Status RealNumbers() const;
  // The classes of the first rows in their order, by the numbers of classes_.
  std::vector<int32_t> SortedClasses(size_t training) const;

  const Targets::Kind kind_;
  const std::vector<std::string> names_;
  const bool standardize_;
  std::vector<double> values_;  // rows x names; of targets
  std::unordered_map<std::string, int32_t> classes_;
  std::vector<int32_t> class_of_row_;
  bool text_ = false;     // whether a class is no number, so that the order is that of names
  bool word_ = false;     // whether one is none with a decimal comma either
  std::string fraction_;  // a class that is a number, but no whole one
};

}  // namespace psgd
