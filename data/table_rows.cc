#include "data/table_rows.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/suggest.h"
#include "data/dataset.h"
#include "data/delimited.h"
#include "data/lines.h"
#include "data/row_targets.h"

namespace psgd {
namespace {

constexpr size_t kMostNamed = 20;  // columns in an error
// A quote that is forgotten would take the rest of the file.
constexpr size_t kLongestOpenRow = size_t{64} << 10;

absl::Status UnknownColumn(absl::string_view key, const std::string& name,
                           const ColumnNames& names) {
  const std::string hint = Suggest(name, names);
  const auto numbers = std::ranges::count_if(names, [](const std::string& column) {
    double number = 0;
    return absl::SimpleAtod(column, &number);
  });
  const bool half = 2 * static_cast<size_t>(numbers) >= names.size();
  return InvalidArgumentError(
      "no column is named \"", name, "\", as ", key, " says",
      hint.empty() ? absl::StrCat("; the columns are ", SomeOf(names, kMostNamed)) : hint,
      half ? "; is the line of column names missing? Write it above the first row" : "");
}

absl::Status CheckNames(const ColumnNames& names) {
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (name.empty()) {
      return absl::InvalidArgumentError(
          &name == &names.front()
              ? "the first column has no name, as the index that pandas writes; write the table "
                "with to_csv(FILE, index=False), or name the column in the first line"
              : "a column has no name; the first line must name all columns");
    }
    if (!seen.insert(name).second) {
      return InvalidArgumentError("two columns are named \"", name, "\"; rename one");
    }
  }
  return absl::OkStatus();
}

// Files that are taken for tables, by their first bytes.
absl::Status CheckText(absl::string_view line) {
  if (absl::StartsWith(line, "\x93NUMPY") || absl::StartsWith(line, "PK\x03\x04")) {
    return absl::InvalidArgumentError(
        line[0] == 'P' ? "this is an archive, as NumPy and Excel write: data.format: arrays reads "
                         "an .npz file; save a sheet as CSV"
                       : "this is a NumPy file: data.format: arrays reads it");
  }
  if (absl::StartsWith(line, "PAR1")) {
    return absl::InvalidArgumentError(
        "this is Parquet, which psgd does not read: write it as CSV (pandas: to_csv(FILE, "
        "index=False))");
  }
  if (absl::StartsWith(line, "{\"") || absl::StartsWith(line, "[{")) {
    return InvalidArgumentError("this is JSON: write it as CSV (pandas: read_json(FILE",
                                line[0] == '{' ? ", lines=True" : "",
                                "), then to_csv(FILE, index=False))");
  }
  if (std::ranges::any_of(line, [](char c) { return absl::ascii_iscntrl(c) && c != '\t'; })) {
    return absl::InvalidArgumentError(
        "this is no text in ASCII or UTF-8: write the table as CSV (pandas: to_csv(FILE, "
        "index=False))");
  }
  return absl::OkStatus();
}

using TakeNames = std::function<absl::Status(const ColumnNames&)>;
using TakeRow = std::function<absl::Status(const std::vector<std::string>&, size_t)>;

// Takes the lines of a file, and hands on its names and rows.
class RowReader {
 public:
  RowReader(const TakeNames& take_names, const TakeRow& take_row)
      : take_names_(take_names), take_row_(take_row) {}

  absl::Status Take(absl::string_view line, size_t number) {
    if (!has_names_) return ReadNames(line);
    if (open_.empty()) {
      first_line_ = number;
    } else {
      line = open_ = absl::StrCat(open_, "\n", line);
    }
    const absl::Status split = SplitFields(line, separator_, &fields_);
    if (absl::IsOutOfRange(split)) {
      if (open_.empty()) open_ = std::string(line);
      if (open_.size() <= kLongestOpenRow) return absl::OkStatus();
      return InvalidArgumentError("the row from line ", first_line_, " on: ", split.message());
    }
    open_.clear();
    PSGD_RETURN_IF_ERROR(split);
    if (fields_.size() != columns_) {
      return InvalidArgumentError(fields_.size(), " fields, but the first line names ", columns_,
                                  " columns; write all separators of a row, and quotes around a "
                                  "field that contains one");
    }
    has_rows_ = true;
    return take_row_(fields_, first_line_);
  }

  absl::Status Finish(const std::string& path) {
    if (!has_names_) {
      return InvalidArgumentError(path, " is empty; its first line must name the columns");
    }
    if (!open_.empty()) {
      return InvalidArgumentError(path, ":", first_line_, ": ",
                                  SplitFields(open_, separator_, &fields_).message());
    }
    if (has_rows_) return absl::OkStatus();
    return InvalidArgumentError(path, " has no row below the names of its columns");
  }

 private:
  absl::Status ReadNames(absl::string_view line) {
    constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";
    PSGD_RETURN_IF_ERROR(CheckText(line));
    if (absl::StartsWith(line, kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
    separator_ = SeparatorOf(line);
    const absl::Status split = SplitFields(line, separator_, &fields_);
    if (!split.ok()) return absl::InvalidArgumentError(split.message());
    PSGD_RETURN_IF_ERROR(CheckNames(fields_));
    has_names_ = true;
    columns_ = fields_.size();
    return take_names_(fields_);
  }

  const TakeNames& take_names_;
  const TakeRow& take_row_;
  bool has_names_ = false, has_rows_ = false;
  char separator_ = ',';
  size_t columns_ = 0;
  std::vector<std::string> fields_;  // of the present row
  std::string open_;                 // the lines of a row whose quotes go on in the next line
  size_t first_line_ = 0;            // of the present row
};

}  // namespace

absl::Status ForEachRow(const std::string& path, const TakeNames& take_names,
                        const TakeRow& take_row) {
  RowReader reader(take_names, take_row);
  PSGD_RETURN_IF_ERROR(ForEachNumberedLine(
      path, [&](absl::string_view line, size_t number) { return reader.Take(line, number); }));
  return reader.Finish(path);
}

std::string SomeOf(const ColumnNames& names, size_t most) {
  const auto shown = static_cast<ptrdiff_t>(std::min(names.size(), most));
  return absl::StrCat(absl::StrJoin(names.begin(), names.begin() + shown, ", "),
                      names.size() > most ? ", ..." : "");
}

absl::StatusOr<size_t> PlaceOf(absl::string_view key, const std::string& name,
                               const ColumnNames& names) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return UnknownColumn(key, name, names);
  return static_cast<size_t>(found - names.begin());
}

absl::Status CheckTargetColumns(const ColumnNames& target, DataConfig::TargetKind kind) {
  if (target.empty()) {
    return absl::InvalidArgumentError(
        "data.target is missing: name the column to predict, or a list of columns");
  }
  if (KindOf(kind) == Targets::Kind::kNone && target.size() > 1) {
    return InvalidArgumentError(
        "data.target names ", target.size(),
        " columns, and a sample has one class; set model.loss to sigmoid if they are labels of 0 "
        "or 1, or to squared, smooth_l1 or poisson if they are numbers");
  }
  std::set<std::string> seen;
  for (const std::string& name : target) {
    if (!seen.insert(name).second) {
      return InvalidArgumentError("data.target names \"", name, "\" twice; leave out one");
    }
  }
  return absl::OkStatus();
}

absl::Status RowPlaces::Add(size_t line) {
  if (rows() == kMostSamples) {
    return absl::InvalidArgumentError("more than 2^30 rows; use a part of the file");
  }
  line_of_row_.push_back(static_cast<uint32_t>(line));
  return absl::OkStatus();
}

std::string RowPlaces::Of(size_t row) const {
  const auto& [first, path] = files_.back();
  const bool of_test = files_.size() > 1 && row >= first;
  return absl::StrCat("line ", line_of_row_[row], of_test ? " of " + path : "");
}

absl::StatusOr<size_t> ReadTableFiles(const TableFiles& files, const RowPlaces& places,
                                      const std::function<absl::Status(const std::string&)>& read) {
  PSGD_RETURN_IF_ERROR(read(files.path));
  const size_t rows = places.rows();
  if (files.test.empty()) return TrainingRows(files.path, rows, files.test_fraction);
  PSGD_RETURN_IF_ERROR(read(files.test));
  return rows;
}

std::string RowPlaces::FileLine(size_t row) const {
  const std::string& path = row >= files_.back().first ? files_.back().second : first_file();
  return absl::StrCat(path, ":", line_of_row_[row]);
}

}  // namespace psgd
