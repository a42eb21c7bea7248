// A table whose rows say what something else is: a column of file names or of text, and targets.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/status.h"
#include "data/row_targets.h"
#include "data/table_rows.h"
#include "proto/config.pb.h"

namespace psgd {

struct LabelledRowsOptions {
  TableFiles files;
  ColumnNames target = {};
  DataConfig::TargetKind kind = DataConfig::CLASS;
  // The column to read besides the targets. Empty: the only one that is no target.
  std::string column = {};
  const char* column_key = "data.columns";  // what names the column, for errors
};

struct LabelledRows {
  std::vector<std::string> fields;  // of the column, by row; none is empty
  RowTargets targets;               // by row
  size_t training = 0;              // rows that come first; the others are the test
  RowPlaces places;
  std::string column;  // that was read
};

// Loads both sets, the test behind the other. Errors name the file, the line, the column and what
// to do.
absl::StatusOr<LabelledRows> ReadLabelledRows(const LabelledRowsOptions& options);

}  // namespace psgd
