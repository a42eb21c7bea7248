// Tables: files of comma- or tab-separated values, below a line of column names. Each row is a
// sample.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "data/dataset.h"
#include "proto/config.pb.h"

namespace psgd {

struct TableOptions {
  std::string path = {};
  std::string test = {};       // file; empty: the last rows of the other
  double test_fraction = 0.1;  // share of rows for the test, if no file has it
  std::vector<std::string> target = {};
  std::vector<std::string> columns = {};     // inputs; empty: all other columns
  std::vector<std::string> categories = {};  // empty: columns with any text
  DataConfig::TargetKind kind = DataConfig::CLASS;
  bool standardize = true;  // else numbers stay as they are
};

// Loads both sets into memory, where an input takes 4 bytes a row, and more while a file is read.
// Errors name the file, the line, the column and what to do. Files may be gzip.
absl::StatusOr<TrainAndTest> LoadTable(const TableOptions& options);

}  // namespace psgd
