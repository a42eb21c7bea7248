#include "data/labelled_rows.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "data/target_reader.h"

namespace psgd {
namespace {

std::string InColumn(absl::string_view name) { return absl::StrCat("column \"", name, "\""); }

class LabelledRowsReader {
 public:
  explicit LabelledRowsReader(const LabelledRowsOptions& options)
      : options_(options),
        column_(options.column),
        targets_(KindOf(options.kind), options.target) {}

  absl::Status Read(const std::string& path) {
    rows_.places.BeginFile(path);
    return ForEachRow(
        path, [this](const ColumnNames& names) { return ReadNames(names); },
        [this](const std::vector<std::string>& fields, size_t line) {
          return AddRow(fields, line);
        });
  }

  const RowPlaces& places() const { return rows_.places; }

  absl::StatusOr<LabelledRows> Finish(size_t training) && {
    rows_.training = training;
    absl::StatusOr<RowTargets> targets =
        std::move(targets_).Finish(training, [this](size_t row) { return rows_.places.Of(row); });
    if (!targets.ok()) {
      return Annotate(targets.status(),
                      absl::StrCat(rows_.places.first_file(), ": ",
                                   InColumn(absl::StrJoin(options_.target, ", "))));
    }
    rows_.targets = *std::move(targets);
    rows_.column = std::move(column_);
    return std::move(rows_);
  }

 private:
  absl::Status ReadNames(const ColumnNames& names) {
    target_places_.clear();
    for (const std::string& name : options_.target) {
      PSGD_ASSIGN_OR_RETURN(target_places_.emplace_back(), PlaceOf("data.target", name, names));
    }
    if (column_.empty()) PSGD_RETURN_IF_ERROR(ChooseColumn(names));
    PSGD_ASSIGN_OR_RETURN(place_, PlaceOf(options_.column_key, column_, names));
    if (std::ranges::count(target_places_, place_) == 0) return absl::OkStatus();
    return InvalidArgumentError(InColumn(column_), " is in ", options_.column_key,
                                " and in data.target; leave it out of one");
  }

  absl::Status ChooseColumn(const ColumnNames& names) {
    ColumnNames others;
    std::ranges::copy_if(names, std::back_inserter(others), [&](const std::string& name) {
      return std::ranges::count(options_.target, name) == 0;
    });
    if (others.size() != 1) {
      return InvalidArgumentError(
          "besides data.target there are ", others.size(), " columns",
          others.empty() ? "" : ": " + absl::StrJoin(others, ", "),
          others.empty() ? "; one must have the text"
                         : "; name the one with the text in data.columns, as data.columns: [NAME]");
    }
    column_ = others[0];
    return absl::OkStatus();
  }

  absl::Status AddRow(const std::vector<std::string>& fields, size_t line) {
    if (absl::StripAsciiWhitespace(fields[place_]).empty()) {
      return InvalidArgumentError(InColumn(column_), ": the field is empty; leave the row out");
    }
    for (size_t i = 0; i < target_places_.size(); ++i) {
      const absl::Status added = targets_.Add(fields[target_places_[i]]);
      if (!added.ok()) return Annotate(added, InColumn(options_.target[i]));
    }
    rows_.fields.push_back(fields[place_]);
    return rows_.places.Add(line);
  }

  const LabelledRowsOptions& options_;
  std::string column_;
  TargetReader targets_;
  LabelledRows rows_;
  std::vector<size_t> target_places_;  // in the present file, as place_
  size_t place_ = 0;
};

}  // namespace

absl::StatusOr<LabelledRows> ReadLabelledRows(const LabelledRowsOptions& options) {
  PSGD_RETURN_IF_ERROR(CheckTargetColumns(options.target, options.kind));
  LabelledRowsReader reader(options);
  PSGD_ASSIGN_OR_RETURN(const size_t training,
                        ReadTableFiles(options.files, reader.places(),
                                       [&](const std::string& path) { return reader.Read(path); }));
  return std::move(reader).Finish(training);
}

}  // namespace psgd
