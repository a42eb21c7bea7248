// Reads a column of a table, and finds out what it holds.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/status.h"
#include "data/column_code.h"
#include "data/row_targets.h"
#include "proto/model.pb.h"

namespace psgd {

// More values mean that a column is a name or an id, which tells nothing of other rows.
inline constexpr size_t kMostCategories = 1000;

// Whether a field means that the value is missing: empty, NA or ?.
bool IsMissing(absl::string_view field);

// Whether it does in a column of numbers, where other marks mean it too: -, and what pandas takes
// for missing. In a category these may be names, as None.
bool IsMissingNumber(absl::string_view field);

// For people, of a number with a decimal comma, or one that separates thousands: how to write it.
// Else empty.
std::string DecimalCommaText(absl::string_view field);

// A finite number up to kLargestNumber in size; else an error that quotes the field.
absl::StatusOr<double> ParseNumber(absl::string_view field);

// Not thread-safe.
class ColumnReader {
 public:
  enum class Kind { kNumber, kCategory };
  struct Column {
    ColumnCode code;
    std::vector<float> cells;         // by row
    Preparation::Column preparation;  // without its name
    bool numbers_rows = false;        // whether it is as a number of the rows, in any order
    bool rarely_repeats = false;      // whether nearly each row has its own category
    std::string marks;                // for people: the marks of missing numbers, if it has any
  };

  // `kind`: nothing: a category if any field is text and no mark of a missing number, or if marks
  // are many beside few different numbers; else a number.
  explicit ColumnReader(std::optional<Kind> kind) : kind_(kind) {}

  // Adds the field of the next row. An error says what is wrong with it.
  absl::Status Add(absl::string_view field);

  // Codes all rows by the first `training` rows, which alone are measured: a number is (value -
  // mean) / deviation, and 0 if it is missing. The values of a category are in the order of their
  // names, and missing ones last, if training rows lack any. What only later rows have counts as
  // missing. Errors name the row's place, if they are about one. Without `standardize` a number
  // stays as it is, and must not be missing.
  absl::StatusOr<Column> Finish(size_t training, const PlaceOfRow& place, bool standardize) &&;

 private:
  absl::Status AddNumber(absl::string_view field);
  void AddMark(absl::string_view field);
  absl::Status AddValue(absl::string_view field);
  // A text among many numbers is a mistake rather than the name of a category, and so are numbers
  // with decimal commas.
  absl::Status CheckTexts(const PlaceOfRow& place) const;
  // Whether marks of missing numbers are names, beside numbers that are codes.
  bool MarksAreNames() const;
  std::string MarksText() const;
  bool NumbersTheRows() const;
  Column Numbers(size_t training, bool standardize) const;
  Column Categories(size_t training) const;

  const std::optional<Kind> kind_;
  std::vector<double> numbers_;  // by row; NaN: missing, or no number
  size_t present_ = 0;           // how many are numbers
  // The distinct values, and each row's; -1: missing. Given up for many values.
  std::unordered_map<std::string, int32_t> values_;
  std::vector<int32_t> value_of_row_;
  bool many_values_ = false;
  std::optional<std::string> text_;   // the first field that is no number
  size_t text_row_ = 0, texts_ = 0;   // its row, and how many there are
  size_t commas_ = 0;                 // those that are numbers with decimal commas
  std::set<std::string> some_texts_;  // distinct ones, at most kFewTexts + 1
  size_t marks_ = 0;                  // of missing numbers, without those of IsMissing
  size_t words_ = 0;                  // such marks that may be names: all but NaN
  std::string mark_;                  // the first
  absl::Status infinite_;             // of the first number that is not finite
  size_t infinite_row_ = 0;
};

}  // namespace psgd
