// Texts, each with a class, labels or numbers to predict from the whole of it.
#pragma once

#include "common/status.h"
#include "data/dataset.h"
#include "proto/config.pb.h"

namespace psgd {

// data.path is a table of texts (CSV, TSV), or a folder with a folder for each class, whose files
// are texts; so is the test, data.table.test. A table's targets are data.target, and its texts the
// column that data.columns names, or the only other one. `vocabulary`: the number of tokens: the
// special ones of data/token_rows.h, and those of data/byte_pairs.h, learned from the training
// texts; 0: bytes instead of byte pairs.
//
// Loads all texts into memory. A sample is the first data.text.length tokens of a text, padded with
// token 0, and has one label, or targets (SampleShape::source is the length). Texts of a folder
// come from the classes in turn, by their names; the test has the last texts of each class. Files
// may be gzip. Errors name the file, the line and what to do.
absl::StatusOr<TrainAndTest> LoadTextClasses(const DataConfig& config, int vocabulary);

}  // namespace psgd
