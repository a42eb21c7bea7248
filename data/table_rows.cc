#include "data/table_rows.h"

#include <algorithm>
#include <optional>
#include <set>

#include "absl/strings/match.h"
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

absl::Status UnknownColumn(absl::string_view key, const std::string& name,
                           const ColumnNames& names) {
  const std::string hint = Suggest(name, names);
  const auto shown = static_cast<ptrdiff_t>(std::min(names.size(), kMostNamed));
  return absl::InvalidArgumentError(absl::StrCat(
      "no column is named \"", name, "\", as ", key, " says",
      hint.empty() ? absl::StrCat("; the columns are ",
                                  absl::StrJoin(names.begin(), names.begin() + shown, ", "),
                                  names.size() > kMostNamed ? ", ..." : "")
                   : hint));
}

absl::Status CheckNames(const ColumnNames& names) {
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (name.empty()) {
      return absl::InvalidArgumentError(
          "a column has no name; the first line must name all columns");
    }
    if (!seen.insert(name).second) {
      return InvalidArgumentError("two columns are named \"", name, "\"; rename one");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ForEachRow(
    const std::string& path, const std::function<absl::Status(const ColumnNames&)>& take_names,
    const std::function<absl::Status(const std::vector<std::string>&, size_t)>& take_row) {
  struct Layout {
    char separator;
    size_t columns;
  };
  std::optional<Layout> layout;
  std::vector<std::string> fields;
  bool rows = false;
  const auto read_names = [&](absl::string_view line) -> absl::Status {
    constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (absl::StartsWith(line, kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
    const char separator = SeparatorOf(line);
    PSGD_RETURN_IF_ERROR(SplitFields(line, separator, &fields));
    PSGD_RETURN_IF_ERROR(CheckNames(fields));
    layout = {separator, fields.size()};
    return take_names(fields);
  };
  PSGD_RETURN_IF_ERROR(
      ForEachNumberedLine(path, [&](absl::string_view line, size_t number) -> absl::Status {
        if (!layout) return read_names(line);
        PSGD_RETURN_IF_ERROR(SplitFields(line, layout->separator, &fields));
        if (fields.size() != layout->columns) {
          return InvalidArgumentError(fields.size(), " fields, but the first line names ",
                                      layout->columns,
                                      " columns; write all separators of a row, and quotes around "
                                      "a field that contains one");
        }
        rows = true;
        return take_row(fields, number);
      }));
  if (!layout) {
    return InvalidArgumentError(path, " is empty; its first line must name the columns");
  }
  if (rows) return absl::OkStatus();
  return InvalidArgumentError(path, " has no row below the names of its columns");
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
