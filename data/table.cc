#include "data/table.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "data/column_code.h"
#include "data/column_reader.h"
#include "data/preparation.h"
#include "data/row_targets.h"
#include "data/table_rows.h"
#include "data/target_reader.h"

namespace psgd {
namespace {

constexpr size_t kMostInputs = size_t{1} << 20;

struct TableRows {
  CodedRows inputs;
  RowTargets targets;
  Preparation preparation;
  std::string note;  // for people: what the columns became
};

constexpr size_t kMostNoted = 8;  // columns of a kind in a note

// The rows from `begin` to `end` as samples.
std::shared_ptr<const Dataset> TableSamples(std::shared_ptr<const TableRows> rows, size_t begin,
                                            size_t end) {
  const SampleShape shape = {.channels = 1,
                             .height = 1,
                             .width = static_cast<int>(rows->inputs.width()),
                             .classes = rows->targets.classes,
                             .targets = static_cast<int>(rows->targets.targets.names.size())};
  const auto read = [rows, begin](const SampleKey& key, const Sample& sample) {
    rows->inputs.FillInputs(begin + key.index, sample.values.data());
    rows->targets.Read(begin + key.index, sample);
    return absl::OkStatus();
  };
  return std::make_shared<ReadDataset>(end - begin, shape, read);
}

// Reads the files of a table, the test's after the other.
class TableReader {
 public:
  explicit TableReader(const TableOptions& options) : options_(options) {}

  absl::Status Read(const std::string& path);
  size_t rows() const { return places_.rows(); }
  const RowPlaces& places() const { return places_; }
  // Codes the rows by the first `training`.
  absl::StatusOr<TableRows> Finish(size_t training);

 private:
  // Where the columns of the present file stand.
  struct Layout {
    std::vector<size_t> inputs, targets;
  };

  absl::Status ReadNames(const ColumnNames& names);
  absl::Status ChooseInputs(const ColumnNames& names);
  absl::Status AddRow(const std::vector<std::string>& fields, size_t line);
  // `row_numbers`: the columns that are as a number of the rows.
  // `marks`: of each input, as of ColumnReader.
  std::string InputsText(const TableRows& table, const std::vector<std::string>& row_numbers,
                         const std::vector<std::string>& marks) const;

  const TableOptions options_;
  ColumnNames inputs_, left_out_;  // once the first names were read
  std::vector<ColumnReader> readers_;
  std::optional<TargetReader> targets_;
  Layout layout_;
  RowPlaces places_;
};

absl::Status TableReader::Read(const std::string& path) {
  places_.BeginFile(path);
  return ForEachRow(
      path, [this](const ColumnNames& names) { return ReadNames(names); },
      [this](const std::vector<std::string>& fields, size_t line) { return AddRow(fields, line); });
}

absl::Status TableReader::ReadNames(const ColumnNames& names) {
  layout_ = {};
  for (const std::string& name : options_.target) {
    PSGD_ASSIGN_OR_RETURN(layout_.targets.emplace_back(), PlaceOf("data.target", name, names));
  }
  if (!targets_) PSGD_RETURN_IF_ERROR(ChooseInputs(names));
  for (const std::string& name : inputs_) {
    PSGD_ASSIGN_OR_RETURN(
        layout_.inputs.emplace_back(),
        PlaceOf(options_.columns.empty() ? "the training file" : "data.columns", name, names));
  }
  return absl::OkStatus();
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
  std::ranges::copy_if(names, std::back_inserter(left_out_), [&](const std::string& name) {
    return !is_target(name) && std::ranges::count(inputs_, name) == 0;
  });
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
  targets_.emplace(KindOf(options_.kind), options_.target, options_.standardize);
  return absl::OkStatus();
}

absl::Status TableReader::AddRow(const std::vector<std::string>& fields, size_t line) {
  const auto named = [](const absl::Status& status, const std::string& name) {
    return status.ok() ? status : Annotate(status, absl::StrCat("column \"", name, "\""));
  };
  for (size_t i = 0; i < readers_.size(); ++i) {
    PSGD_RETURN_IF_ERROR(named(readers_[i].Add(fields[layout_.inputs[i]]), inputs_[i]));
  }
  for (size_t i = 0; i < layout_.targets.size(); ++i) {
    PSGD_RETURN_IF_ERROR(named(targets_->Add(fields[layout_.targets[i]]), options_.target[i]));
  }
  return places_.Add(line);
}

absl::StatusOr<TableRows> TableReader::Finish(size_t training) {
  const auto place = [this](size_t row) { return places_.Of(row); };
  const auto of_column = [&](const absl::Status& status, const std::string& name) {
    return Annotate(status, absl::StrCat(places_.first_file(), ": column \"", name, "\""));
  };
  TableRows table;
  std::vector<std::string> row_numbers, names_of_rows, marks;
  table.inputs.cells.resize(rows() * readers_.size());
  for (size_t i = 0; i < readers_.size(); ++i) {
    ColumnReader reader = std::move(readers_[i]);  // gives its memory back
    absl::StatusOr<ColumnReader::Column> column =
        std::move(reader).Finish(training, place, options_.standardize);
    if (!column.ok()) return of_column(column.status(), inputs_[i]);
    for (size_t row = 0; row < rows(); ++row) {
      table.inputs.cells[row * readers_.size() + i] = column->cells[row];
    }
    table.inputs.columns.push_back(column->code);
    Preparation::Column& prepared = *table.preparation.add_columns();
    prepared = std::move(column->preparation);
    prepared.set_name(inputs_[i]);
    marks.push_back(std::move(column->marks));
    if (column->numbers_rows) row_numbers.push_back(inputs_[i]);
    if (column->rarely_repeats) names_of_rows.push_back(inputs_[i]);
  }
  if (table.inputs.width() > kMostInputs) {
    return InvalidArgumentError(places_.first_file(), ": the columns become ", table.inputs.width(),
                                " inputs, an input a value of a category; name fewer columns in "
                                "data.columns");
  }
  absl::StatusOr<RowTargets> targets = std::move(*targets_).Finish(training, place);
  if (!targets.ok()) return of_column(targets.status(), absl::StrJoin(options_.target, ", "));
  table.targets = *std::move(targets);
  RecordClasses(table.targets.class_names, &table.preparation);
  table.note = InputsText(table, row_numbers, marks);
  if (!names_of_rows.empty()) {
    AddNote(
        absl::StrCat("most rows have a text of their own in ", SomeOf(names_of_rows, kMostNoted),
                     ", which tells nothing of other rows: leave that out (data.columns names "
                     "the inputs), or write it as numbers, as the year and month of a date"),
        &table.note);
  }
  return table;
}

std::string TableReader::InputsText(const TableRows& table,
                                    const std::vector<std::string>& row_numbers,
                                    const std::vector<std::string>& marks) const {
  std::vector<std::string> numbers, marked;
  std::vector<std::pair<size_t, std::string>> categories;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const ColumnCode& code = table.inputs.columns[i];
    if (code.category) {
      categories.emplace_back(code.width, absl::StrCat(inputs_[i], " (", code.width, " values)"));
    } else if (marks[i].empty()) {
      numbers.push_back(inputs_[i]);
    } else {
      marked.push_back(absl::StrCat(inputs_[i], " (", marks[i], ")"));
    }
  }
  numbers.insert(numbers.begin(), marked.begin(), marked.end());
  std::ranges::stable_sort(categories, std::greater(),
                           [](const auto& named) { return named.first; });
  std::vector<std::string> widest;
  for (auto& [width, name] : categories) widest.push_back(std::move(name));
  std::string text = absl::StrCat(places_.first_file(), " becomes ", table.inputs.width(),
                                  table.inputs.width() == 1 ? " input" : " inputs");
  const char* mark = ": ";
  using Part = std::pair<const char*, const std::vector<std::string>*>;
  for (const auto& [what, names] :
       {Part("numbers ", &numbers), Part("categories ", &widest), Part("left out ", &left_out_)}) {
    if (names->empty()) continue;
    absl::StrAppend(&text, mark, what, SomeOf(*names, kMostNoted));
    mark = "; ";
  }
  if (!row_numbers.empty()) {
    absl::StrAppend(&text, "; row numbers, it seems, in ", SomeOf(row_numbers, kMostNoted),
                    ": leave them out if so (data.columns names the inputs)");
  }
  return text;
}

}  // namespace

absl::StatusOr<TrainAndTest> LoadTable(const TableOptions& options) {
  PSGD_RETURN_IF_ERROR(CheckTargetColumns(options.target, options.kind));
  TableReader reader(options);
  PSGD_ASSIGN_OR_RETURN(
      const size_t training,
      ReadTableFiles({options.path, options.test, options.test_fraction}, reader.places(),
                     [&](const std::string& path) { return reader.Read(path); }));
  PSGD_ASSIGN_OR_RETURN(TableRows table, reader.Finish(training));
  auto rows = std::make_shared<const TableRows>(std::move(table));
  std::string note = rows->note;
  AddNote(TargetsNote(options.path, rows->targets, training, /*split=*/options.test.empty()),
          &note);
  return TrainAndTest{TableSamples(rows, 0, training), TableSamples(rows, training, reader.rows()),
                      rows->targets.targets, rows->preparation, std::move(note)};
}

}  // namespace psgd
