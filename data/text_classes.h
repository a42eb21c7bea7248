// Texts, each with a class, labels or numbers to predict from the whole of it.
#pragma once

#include <string>

#include "common/status.h"
#include "data/dataset.h"
#include "data/table_rows.h"
#include "proto/config.pb.h"

namespace psgd {

struct TextClassesOptions {
  // A table of texts (CSV, TSV), or a folder with a folder for each class, whose files are texts.
  std::string path;
  std::string test = {};       // as `path`; empty: the last texts of the other
  double test_fraction = 0.1;  // share of texts for the test, if nothing else has it
  ColumnNames target = {};     // of a table; empty with a folder
  ColumnNames columns = {};    // of a table: the one of texts; empty: the only one besides `target`
  DataConfig::TargetKind kind = DataConfig::CLASS;
  int length = 128;  // tokens of a sample
  // Number of tokens: the special ones of data/token_rows.h, and those of data/byte_pairs.h,
  // learned from the training texts. 0: bytes instead of byte pairs.
  int vocabulary = 0;
};

// Loads all texts into memory. A sample is the first `length` tokens of a text, padded with token
// 0, and has one label, or targets (SampleShape::source is the length). Texts of a folder come from
// the classes in turn, by their names; the test has the last texts of each class. Files may be
// gzip. Errors name the file, the line and what to do.
absl::StatusOr<TrainAndTest> LoadTextClasses(const TextClassesOptions& options);

}  // namespace psgd
