// Files of one sparse sample a line: LIBSVM's format, and Criteo's.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "common/status.h"
#include "data/sets.h"
#include "data/sparse_rows.h"

namespace psgd {

// A line `label index:value index:value ...`, indices from 1, ascending.
// https://www.csie.ntu.edu.tw/~cjlin/libsvm
absl::Status ParseLibsvm(absl::string_view line, SparseRow* row);

inline constexpr int32_t kCriteoCounts = 13;
inline constexpr int32_t kCriteoCategories = 26;
inline constexpr int64_t kCriteoBuckets = int64_t{1} << 20;

// A line of the Display Advertising Challenge: label, 13 counts and 26 categories between tabs,
// some of them empty. Count i is feature i, of value log(1 + count), or 1 + count below zero; a
// category is one of `buckets` features, of value 1, by its hash together with its column.
absl::Status ParseCriteo(absl::string_view line, int64_t buckets, SparseRow* row);

struct TableOptions {
  std::string path;
  std::string test = {};       // empty: PATH.t if there is one, else the last lines of the file
  double test_fraction = 0.1;  // those
  bool criteo = false;         // else libsvm
  int64_t features = 0;        // see TableConfig
};

// Loads both into memory. What follows a # is left out of a line of libsvm; one that has nothing
// else is no sample. Classes are the labels of the training lines, ascending. Files may be
// gzip. Errors name the file, the line and what to do.
absl::StatusOr<SparseSets> LoadTable(const TableOptions& options);

}  // namespace psgd
