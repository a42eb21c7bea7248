// Files with one sparse sample per line, in LIBSVM's or Criteo's format.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "common/status.h"
#include "data/dataset.h"
#include "data/sparse_rows.h"
#include "proto/config.pb.h"

namespace psgd {

// Parses a line `label index:value index:value ...`, indices from 1, ascending.
// https://www.csie.ntu.edu.tw/~cjlin/libsvm
absl::Status ParseLibsvm(absl::string_view line, SparseRow* row);

inline constexpr int32_t kCriteoCounts = 13;
inline constexpr int32_t kCriteoCategories = 26;
inline constexpr int64_t kCriteoBuckets = int64_t{1} << 20;

// Parses a line of the Display Advertising Challenge: label, 13 counts and 26 categories between
// tabs; fields may be empty. Count i is feature i, with value log(1 + count), or 1 + count below
// zero. A category and its column are hashed to one of `buckets` features, with value 1.
absl::Status ParseCriteo(absl::string_view line, int64_t buckets, SparseRow* row);

struct SparseTableOptions {
  std::string path;
  std::string test = {};       // empty: PATH.t if there is one, else the last lines of the file
  double test_fraction = 0.1;  // share of lines for the test, if no file has it
  bool criteo = false;         // else libsvm
  int64_t features = 0;        // see TableConfig
  DataConfig::TargetKind kind = DataConfig::CLASS;  // what the labels of libsvm are
};

// Loads both sets into memory. In libsvm files, # begins a comment; a line with only a comment is
// no sample. Classes are the labels of the training lines, in ascending order, and numbers or
// counts are one target, called label. Files may be gzip.
// Errors name the file, the line and what to do.
absl::StatusOr<TrainAndTest> LoadSparseTable(const SparseTableOptions& options);

}  // namespace psgd
