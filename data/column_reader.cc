#include "data/column_reader.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "data/number_scale.h"
#include "data/preparation.h"

namespace psgd {
namespace {

constexpr size_t kMostQuoted = 40;

std::string Quoted(absl::string_view field) {
  return absl::StrCat("\"", field.substr(0, kMostQuoted), "\"");
}

// Marks of a missing number are few, and so are the texts that stand for one.
constexpr size_t kFewTexts = 2;

// Numbers with texts are codes, and the texts names, if no more numbers are different, and if
// fewer numbers come with each text.
constexpr size_t kFewNumbers = 20, kManyNumbers = 20;

// Whether a comma may separate thousands: of at most three digits, three follow.
bool MayBeThousands(absl::string_view field) {
  if (absl::StartsWith(field, "-") || absl::StartsWith(field, "+")) field.remove_prefix(1);
  const size_t comma = field.find(',');
  return comma != absl::string_view::npos && comma > 0 && comma <= 3 && field[0] != '0' &&
         field.size() == comma + 4 &&
         std::ranges::all_of(field.substr(comma + 1), absl::ascii_isdigit);
}

absl::Status TooMany(absl::string_view text) {
  return InvalidArgumentError(
      "more than ", kMostCategories, " different values, and text, as ", Quoted(text),
      ": too many for categories; correct the text of a number, or list the columns to predict "
      "from in data.columns, without this one",
      absl::StrContains(text, ' ')
          ? "; to learn from texts, set data.format: text_classes and data.columns to this column"
          : "");
}

}  // namespace

bool IsMissing(absl::string_view field) { return field.empty() || field == "NA" || field == "?"; }

bool IsMissingNumber(absl::string_view field) {
  constexpr absl::string_view kMarks[] = {
      "-",    "N/A",  "n/a",  "NULL", "null",     "None",   "NaN",     "nan",     "-NaN",
      "-nan", "<NA>", "#N/A", "#NA",  "#N/A N/A", "1.#IND", "1.#QNAN", "-1.#IND", "-1.#QNAN"};
  return IsMissing(field) || std::ranges::find(kMarks, field) != std::end(kMarks);
}

std::string DecimalCommaText(absl::string_view field) {
  double number = 0;
  const std::string point = absl::StrReplaceAll(field, {{",", "."}});
  if (point == field || !absl::SimpleAtod(point, &number)) return "";
  const bool thousands = MayBeThousands(field);
  return absl::StrCat(
      "; it has a decimal comma", thousands ? " or one of thousands" : "", ": write ", point,
      thousands ? absl::StrCat(" or ", absl::StrReplaceAll(field, {{",", ""}})) : "",
      " (pandas: read_csv(FILE, decimal=\",\"", thousands ? " or thousands=\",\"" : "",
      "), then to_csv(FILE, index=False))");
}

absl::StatusOr<double> ParseNumber(absl::string_view field) {
  double number = 0;
  if (!absl::SimpleAtod(field, &number)) {
    return InvalidArgumentError(Quoted(field), " is no number", DecimalCommaText(field));
  }
  if (std::abs(number) <= kLargestNumber) return number;
  return InvalidArgumentError(Quoted(field),
                              std::isfinite(number) ? " is above 1e30" : " is no finite number",
                              "; leave the field empty where the value is missing");
}

absl::Status ColumnReader::Add(absl::string_view field) {
  const bool missing = IsMissing(field);
  numbers_.push_back(std::numeric_limits<double>::quiet_NaN());
  if (kind_ != Kind::kCategory && !missing) {
    if (IsMissingNumber(field)) {
      AddMark(field);
    } else {
      PSGD_RETURN_IF_ERROR(AddNumber(field));
    }
  }
  if (kind_ == Kind::kNumber) return absl::OkStatus();
  if (many_values_) return absl::OkStatus();
  if (!missing) return AddValue(field);
  value_of_row_.push_back(-1);
  return absl::OkStatus();
}

void ColumnReader::AddMark(absl::string_view field) {
  if (marks_++ == 0) mark_ = std::string(field);
  double number = 0;
  if (!absl::SimpleAtod(field, &number)) ++words_;
}

absl::Status ColumnReader::AddNumber(absl::string_view field) {
  const absl::StatusOr<double> number = ParseNumber(field);
  if (number.ok()) {
    numbers_.back() = *number;
    ++present_;
    return absl::OkStatus();
  }
  if (kind_ == Kind::kNumber) return number.status();
  if (double infinite = 0; !absl::SimpleAtod(field, &infinite)) {
    if (!text_) {
      text_ = std::string(field);
      text_row_ = numbers_.size() - 1;
    }
    ++texts_;
    if (!DecimalCommaText(field).empty()) ++commas_;
    if (some_texts_.size() <= kFewTexts) some_texts_.insert(std::string(field));
  } else if (infinite_.ok()) {  // it may be a name, in a column of text
    infinite_ = number.status();
    infinite_row_ = numbers_.size() - 1;
  }
  return absl::OkStatus();
}

absl::Status ColumnReader::AddValue(absl::string_view field) {
  const auto [value, is_new] =
      values_.emplace(std::string(field), static_cast<int32_t>(values_.size()));
  value_of_row_.push_back(value->second);
  if (!is_new || values_.size() <= kMostCategories) return absl::OkStatus();
  if (kind_ == Kind::kCategory) return TooMany(field);
  many_values_ = true;
  values_.clear();
  value_of_row_ = {};
  return absl::OkStatus();
}

absl::Status ColumnReader::CheckTexts(const PlaceOfRow& place) const {
  if (kind_ || !text_) return absl::OkStatus();
  if (commas_ == texts_ || 2 * commas_ > numbers_.size()) {
    return InvalidArgumentError(place(text_row_), ": ", ParseNumber(*text_).status().message(),
                                "; or, if its values are names, list the column in "
                                "data.categories");
  }
  const bool numbers =
      some_texts_.size() <= kFewTexts && (many_values_ || values_.size() > kFewNumbers + kFewTexts);
  if (many_values_ && !numbers && present_ <= texts_) {
    return Annotate(TooMany(*text_), place(text_row_));
  }
  if (!many_values_ && !numbers && present_ < kManyNumbers * texts_) return absl::OkStatus();
  return InvalidArgumentError(
      place(text_row_), ": ", Quoted(*text_), " is no number, as ", present_,
      " other fields are; correct it, leave the field empty where the value is missing, or ",
      many_values_ ? "leave the column out (data.columns names the inputs)"
                   : "name the column in data.categories");
}

bool ColumnReader::MarksAreNames() const {
  return words_ > 0 && present_ > 0 && !many_values_ && values_.size() <= kFewNumbers + kFewTexts &&
         present_ < kManyNumbers * words_;
}

std::string ColumnReader::MarksText() const {
  if (marks_ == 0) return "";
  return absl::StrCat(marks_, " of ", numbers_.size(), " marked missing, as ", Quoted(mark_));
}

// Whether the numbers are those of the rows, in any order.
bool ColumnReader::NumbersTheRows() const {
  constexpr size_t kManyRows = 20;
  const size_t rows = numbers_.size();
  if (present_ != rows || rows < kManyRows) return false;
  const double least = *std::ranges::min_element(numbers_);
  std::vector<bool> seen(rows);
  for (const double number : numbers_) {
    const double place = number - least;
    if (place >= static_cast<double>(rows) || place != std::floor(place)) return false;
    const auto at = static_cast<size_t>(place);
    if (seen[at]) return false;
    seen[at] = true;
  }
  return true;
}

absl::StatusOr<ColumnReader::Column> ColumnReader::Finish(size_t training, const PlaceOfRow& place,
                                                          bool standardize) && {
  PSGD_RETURN_IF_ERROR(CheckTexts(place));
  const bool category = kind_ ? *kind_ == Kind::kCategory : text_.has_value() || MarksAreNames();
  if (!category && !infinite_.ok()) return Annotate(infinite_, place(infinite_row_));
  if (!category && !standardize && present_ > 0 && present_ < numbers_.size()) {
    const auto missing =
        std::ranges::find_if(numbers_, [](double number) { return std::isnan(number); });
    return InvalidArgumentError(place(static_cast<size_t>(missing - numbers_.begin())),
                                ": the number is missing, and with data.standardize: false there "
                                "is no mean to stand for it; fill it in");
  }
  Column column = category ? Categories(training) : Numbers(training, standardize);
  if (!column.cells.empty()) return column;
  if (!category && marks_ > 0 && present_ == 0) {
    return InvalidArgumentError(
        "all its values mean missing, as ", Quoted(mark_),
        "; if they are names, list the column in data.categories, or else leave it out "
        "(data.columns names the inputs)");
  }
  return absl::InvalidArgumentError(
      "no training row has a value; list the columns to predict from in data.columns, without this "
      "one");
}

// Without cells if no training row has a number.
ColumnReader::Column ColumnReader::Numbers(size_t training, bool standardize) const {
  std::optional<NumberScale> scale =
      MeasureScale(training, [&](size_t row) { return numbers_[row]; });
  if (!scale) return {};
  if (!standardize) scale = NumberScale();
  Column column;
  *column.preparation.mutable_scale() = RecordOf(*scale);
  column.numbers_rows = NumbersTheRows();
  column.marks = MarksText();
  column.cells.reserve(numbers_.size());
  for (const double number : numbers_) {
    column.cells.push_back(std::isnan(number) ? 0 : scale->Of(number));
  }
  return column;
}

// Without cells if no training row has a value.
ColumnReader::Column ColumnReader::Categories(size_t training) const {
  std::vector<bool> known(values_.size());
  bool missing = false;
  size_t present = 0;
  for (size_t row = 0; row < training; ++row) {
    const int32_t value = value_of_row_[row];
    missing = missing || value < 0;
    present += value < 0 ? 0 : 1;
    if (value >= 0) known[static_cast<size_t>(value)] = true;
  }
  std::map<std::string, int32_t> sorted;
  for (const auto& [name, value] : values_) {
    if (known[static_cast<size_t>(value)]) sorted.emplace(name, value);
  }
  if (sorted.empty()) return {};
  const float others = missing ? static_cast<float>(sorted.size()) : -1.0f;
  std::vector<float> cell_of_value(values_.size(), others);
  float next = 0;
  for (const auto& [name, value] : sorted) cell_of_value[static_cast<size_t>(value)] = next++;
  Column column = {{.category = true, .width = sorted.size() + (missing ? 1 : 0)}, {}, {}};
  for (const auto& [name, value] : sorted) column.preparation.add_values(name);
  column.preparation.set_missing(missing);
  column.rarely_repeats = !kind_ && RarelyRepeat(present, sorted.size());
  column.cells.reserve(value_of_row_.size());
  for (const int32_t value : value_of_row_) {
    column.cells.push_back(value < 0 ? others : cell_of_value[static_cast<size_t>(value)]);
  }
  return column;
}

}  // namespace psgd
