#include "data/table.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/suggest.h"
#include "data/column_reader.h"
#include "data/delimited.h"
#include "data/lines.h"
#include "data/row_targets.h"
#include "data/target_reader.h"

namespace psgd {
namespace {

constexpr size_t kMostNamed = 20;  // columns in an error
constexpr size_t kMostInputs = size_t{1} << 20;

using ColumnNames = std::vector<std::string>;

struct TableRows {
  std::vector<ColumnCode> columns;
  std::vector<float> cells;  // rows x columns
  RowTargets targets;
};

// A range of rows. Thread-safe: immutable.
class TableDataset final : public Dataset {
 public:
  TableDataset(std::shared_ptr<const TableRows> rows, size_t begin, size_t end)
      : rows_(std::move(rows)), begin_(begin), size_(end - begin) {
    shape_ = {.channels = 1, .height = 1, .classes = rows_->targets.classes};
    for (const ColumnCode& column : rows_->columns) shape_.width += static_cast<int>(column.width);
    shape_.targets = static_cast<int>(rows_->targets.targets.names.size());
  }

  size_t size() const override { return size_; }
  SampleShape shape() const override { return shape_; }
  absl::Status Read(const SampleKey& key, const Sample& sample) const override {
    const size_t row = begin_ + key.index;
    const float* cell = rows_->cells.data() + row * rows_->columns.size();
    float* inputs = sample.values.data();
    for (const ColumnCode& column : rows_->columns) {
      column.FillInputs(*cell++, inputs);
      inputs += column.width;
    }
    rows_->targets.Read(row, sample);
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const TableRows> rows_;
  const size_t begin_, size_;
  SampleShape shape_;
};

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

absl::StatusOr<size_t> PlaceOf(absl::string_view key, const std::string& name,
                               const ColumnNames& names) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return UnknownColumn(key, name, names);
  return static_cast<size_t>(found - names.begin());
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

// Reads the files of a table, the test's after the other.
class TableReader {
 public:
  explicit TableReader(const TableOptions& options) : options_(options) {}

  absl::Status Read(const std::string& path);
  size_t rows() const { return line_of_row_.size(); }
  // Codes the rows by the first `training`.
  absl::StatusOr<TableRows> Finish(size_t training);

 private:
  // Where the columns of the present file stand.
  struct Layout {
    char separator = ',';
    size_t columns = 0;
    std::vector<size_t> inputs, targets;
  };

  absl::StatusOr<Layout> ReadNames(absl::string_view line);
  absl::Status ChooseInputs(const ColumnNames& names);
  absl::Status AddRow(const Layout& layout, absl::string_view line, size_t number);
  std::string PlaceOfRow(size_t row) const;

  const TableOptions options_;
  ColumnNames inputs_;  // once the first names were read
  std::vector<ColumnReader> readers_;
  std::optional<TargetReader> targets_;
  std::vector<uint32_t> line_of_row_;
  std::vector<std::pair<size_t, std::string>> files_;  // the first row of each, and its path
  std::vector<std::string> fields_;                    // of the present line
};

absl::Status TableReader::Read(const std::string& path) {
  files_.emplace_back(rows(), path);
  std::optional<Layout> layout;
  PSGD_RETURN_IF_ERROR(
      ForEachNumberedLine(path, [&](absl::string_view line, size_t number) -> absl::Status {
        if (layout) return AddRow(*layout, line, number);
        PSGD_ASSIGN_OR_RETURN(layout, ReadNames(line));
        return absl::OkStatus();
      }));
  if (!layout) {
    return InvalidArgumentError(path, " is empty; its first line must name the columns");
  }
  if (rows() > files_.back().first) return absl::OkStatus();
  return InvalidArgumentError(path, " has no row below the names of its columns");
}

absl::StatusOr<TableReader::Layout> TableReader::ReadNames(absl::string_view line) {
  constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (absl::StartsWith(line, kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  Layout layout;
  layout.separator = SeparatorOf(line);
  ColumnNames names;
  PSGD_RETURN_IF_ERROR(SplitFields(line, layout.separator, &names));
  PSGD_RETURN_IF_ERROR(CheckNames(names));
  layout.columns = names.size();
  for (const std::string& name : options_.target) {
    PSGD_ASSIGN_OR_RETURN(layout.targets.emplace_back(), PlaceOf("data.target", name, names));
  }
  if (!targets_) PSGD_RETURN_IF_ERROR(ChooseInputs(names));
  for (const std::string& name : inputs_) {
    PSGD_ASSIGN_OR_RETURN(
        layout.inputs.emplace_back(),
        PlaceOf(options_.columns.empty() ? "the training file" : "data.columns", name, names));
  }
  return layout;
}

absl::Status TableReader::ChooseInputs(const ColumnNames& names) {
  const auto is_target = [&](const std::string& name) {
    return std::count(options_.target.begin(), options_.target.end(), name) > 0;
  };
  inputs_ = options_.columns;
  if (inputs_.empty()) {
    std::ranges::copy_if(names, std::back_inserter(inputs_),
                         [&](const std::string& name) { return !is_target(name); });
  }
  for (const std::string& name : inputs_) {
    if (!is_target(name)) continue;
    return InvalidArgumentError("column \"", name,
                                "\" is in data.columns and in data.target; leave it out of one");
  }
  if (inputs_.empty()) {
    return absl::InvalidArgumentError("all columns are targets; leave one out of data.target");
  }
  for (const std::string& name : options_.categories) {
    PSGD_RETURN_IF_ERROR(PlaceOf("data.categories", name, inputs_).status());
  }
  for (const std::string& name : inputs_) {
    const bool listed =
        std::count(options_.categories.begin(), options_.categories.end(), name) > 0;
    readers_.emplace_back(
        options_.categories.empty()
            ? std::nullopt
            : std::optional(listed ? ColumnReader::Kind::kCategory : ColumnReader::Kind::kNumber));
  }
  targets_.emplace(KindOf(options_.kind), options_.target);
  return absl::OkStatus();
}

absl::Status TableReader::AddRow(const Layout& layout, absl::string_view line, size_t number) {
  if (rows() == kMostSamples) {
    return absl::InvalidArgumentError("more than 2^30 rows; use a part of the file");
  }
  PSGD_RETURN_IF_ERROR(SplitFields(line, layout.separator, &fields_));
  if (fields_.size() != layout.columns) {
    return InvalidArgumentError(
        fields_.size(), " fields, but the first line names ", layout.columns,
        " columns; write all separators of a row, and quotes around a field that contains one");
  }
  const auto named = [](const absl::Status& status, const std::string& name) {
    return status.ok() ? status : Annotate(status, absl::StrCat("column \"", name, "\""));
  };
  for (size_t i = 0; i < readers_.size(); ++i) {
    PSGD_RETURN_IF_ERROR(named(readers_[i].Add(fields_[layout.inputs[i]]), inputs_[i]));
  }
  for (size_t i = 0; i < layout.targets.size(); ++i) {
    PSGD_RETURN_IF_ERROR(named(targets_->Add(fields_[layout.targets[i]]), options_.target[i]));
  }
  line_of_row_.push_back(static_cast<uint32_t>(number));
  return absl::OkStatus();
}

std::string TableReader::PlaceOfRow(size_t row) const {
  const auto& [first, path] = files_.back();
  const bool of_test = files_.size() > 1 && row >= first;
  return absl::StrCat("line ", line_of_row_[row], of_test ? " of " + path : "");
}

absl::StatusOr<TableRows> TableReader::Finish(size_t training) {
  const auto place = [this](size_t row) { return PlaceOfRow(row); };
  const auto of_column = [&](const absl::Status& status, const std::string& name) {
    return Annotate(status, absl::StrCat(files_.front().second, ": column \"", name, "\""));
  };
  TableRows table;
  table.cells.resize(rows() * readers_.size());
  size_t width = 0;
  for (size_t i = 0; i < readers_.size(); ++i) {
    ColumnReader reader = std::move(readers_[i]);  // gives its memory back
    absl::StatusOr<ColumnReader::Column> column = std::move(reader).Finish(training, place);
    if (!column.ok()) return of_column(column.status(), inputs_[i]);
    for (size_t row = 0; row < rows(); ++row) {
      table.cells[row * readers_.size() + i] = column->cells[row];
    }
    width += column->code.width;
    table.columns.push_back(column->code);
  }
  if (width > kMostInputs) {
    return InvalidArgumentError(files_.front().second, ": the columns become ", width,
                                " inputs, an input a value of a category; name fewer columns in "
                                "data.columns");
  }
  absl::StatusOr<RowTargets> targets = std::move(*targets_).Finish(training, place);
  if (!targets.ok()) return of_column(targets.status(), absl::StrJoin(options_.target, ", "));
  table.targets = *std::move(targets);
  return table;
}

absl::Status CheckOptions(const TableOptions& options) {
  if (options.target.empty()) {
    return absl::InvalidArgumentError(
        "data.target is missing: name the column to predict, or a list of columns");
  }
  if (KindOf(options.kind) == Targets::Kind::kNone && options.target.size() > 1) {
    return InvalidArgumentError(
        "data.target names ", options.target.size(),
        " columns, and a sample has one class; set model.loss to sigmoid if they are labels of 0 "
        "or 1, or to squared, smooth_l1 or poisson if they are numbers");
  }
  std::set<std::string> seen;
  for (const std::string& name : options.target) {
    if (!seen.insert(name).second) {
      return InvalidArgumentError("data.target names \"", name, "\" twice; leave out one");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TrainAndTest> LoadTable(const TableOptions& options) {
  PSGD_RETURN_IF_ERROR(CheckOptions(options));
  TableReader reader(options);
  PSGD_RETURN_IF_ERROR(reader.Read(options.path));
  size_t training = reader.rows();
  if (!options.test.empty()) {
    PSGD_RETURN_IF_ERROR(reader.Read(options.test));
  } else {
    PSGD_ASSIGN_OR_RETURN(training, TrainingRows(options.path, training, options.test_fraction));
  }
  PSGD_ASSIGN_OR_RETURN(TableRows table, reader.Finish(training));
  auto rows = std::make_shared<const TableRows>(std::move(table));
  return TrainAndTest{std::make_shared<TableDataset>(rows, 0, training),
                      std::make_shared<TableDataset>(rows, training, reader.rows()),
                      rows->targets.targets};
}

}  // namespace psgd
