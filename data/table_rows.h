// The lines of a table: a file of comma- or tab-separated values, below a line of column names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/status.h"
#include "proto/config.pb.h"

namespace psgd {

using ColumnNames = std::vector<std::string>;

// Calls take_names(names) for the first line of a file, then take_row(fields, line) for each other,
// until one call fails. Rows have a field a column; a field in quotes may go on in the next lines,
// of which blank ones are left out. Errors name the file and the line. The file may be gzip.
absl::Status ForEachRow(
    const std::string& path, const std::function<absl::Status(const ColumnNames&)>& take_names,
    const std::function<absl::Status(const std::vector<std::string>&, size_t)>& take_row);

// Returns the place of a column. `key` names it in the error, which suggests the right name.
absl::StatusOr<size_t> PlaceOf(absl::string_view key, const std::string& name,
                               const ColumnNames& names);

// "a, b, ...": the first `most` of the names.
std::string SomeOf(const ColumnNames& names, size_t most);

// Whether columns can be targets of a kind: at least one, none twice, and one if it is a class.
absl::Status CheckTargetColumns(const ColumnNames& target, DataConfig::TargetKind kind);

// Where the rows of one or two files stand, for errors that are found after they were read.
class RowPlaces {
 public:
  void BeginFile(const std::string& path) { files_.emplace_back(rows(), path); }
  // Adds the next row. An error if there are too many.
  absl::Status Add(size_t line);
  size_t rows() const { return line_of_row_.size(); }
  const std::string& first_file() const { return files_.front().second; }
  // "line 17", with " of FILE" in a second file.
  std::string Of(size_t row) const;
  std::string FileLine(size_t row) const;  // "FILE:17"

 private:
  std::vector<uint32_t> line_of_row_;
  std::vector<std::pair<size_t, std::string>> files_;  // the first row of each, and its path
};

// The two sets of a table: two files, or parts of one.
struct TableFiles {
  std::string path = {};
  std::string test = {};       // empty: the last rows of the other
  double test_fraction = 0.1;  // share of rows for the test, if no file has it
};

// Calls read(path) for each file, which adds its rows to `places`. Returns the number of rows for
// training, which come first.
absl::StatusOr<size_t> ReadTableFiles(const TableFiles& files, const RowPlaces& places,
                                      const std::function<absl::Status(const std::string&)>& read);

}  // namespace psgd
