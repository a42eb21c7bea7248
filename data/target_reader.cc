#include "data/target_reader.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

// The order of two class names.
bool Before(bool numbers, const std::string& a, const std::string& b) {
  double first = 0, second = 0;
  if (!numbers || !absl::SimpleAtod(a, &first) || !absl::SimpleAtod(b, &second)) return a < b;
  return first != second ? first < second : a < b;
}

// How to write labels instead of this field, with pandas.
std::string LabelsText(absl::string_view field) {
  const size_t mark = field.find_first_of("|;,");
  return absl::StrCat(
      "; labels are 0 or 1, or True or False (model.loss: sigmoid); ",
      mark == absl::string_view::npos
          ? "write so, as with pandas: df[column] == \"yes\""
          : absl::StrCat("give each label its column, as with pandas: "
                         "df[column].str.get_dummies(\"",
                         field.substr(mark, 1), "\"), and name the columns in data.target"));
}

}  // namespace

absl::Status TargetReader::Add(absl::string_view field) {
  const bool number = kind_ != Targets::Kind::kNone;
  if (number ? IsMissingNumber(field) : IsMissing(field)) {
    return absl::InvalidArgumentError(
        "the target is missing, and a row without it teaches nothing; leave the row out");
  }
  if (kind_ == Targets::Kind::kNone) return AddClass(field);
  if (kind_ == Targets::Kind::kLabel) {
    const std::string word = absl::AsciiStrToLower(field);  // as pandas and R write labels
    if (word == "true" || word == "false") field = word == "true" ? "1" : "0";
  }
  const absl::StatusOr<double> value = ParseNumber(field);
  if (!value.ok()) {
    const std::string text(value.status().message());
    if (kind_ == Targets::Kind::kLabel) return InvalidArgumentError(text, LabelsText(field));
    if (!DecimalCommaText(field).empty()) return value.status();
    return InvalidArgumentError(text, "; if it is a class, set model.loss to cross_entropy");
  }
  PSGD_RETURN_IF_ERROR(CheckTarget(kind_, *value));
  values_.push_back(*value);
  return absl::OkStatus();
}

absl::Status TargetReader::AddClass(absl::string_view field) {
  const auto [found, is_new] =
      classes_.emplace(std::string(field), static_cast<int32_t>(classes_.size()));
  class_of_row_.push_back(found->second);
  double number = 0;
  const bool is_number = is_new && absl::SimpleAtod(field, &number);
  const bool comma = is_new && !is_number && !DecimalCommaText(field).empty();
  text_ = text_ || (is_new && (!is_number || std::isnan(number)));
  word_ = word_ || (is_new && !is_number && !comma);
  if (comma || (is_number && std::isfinite(number) && number != std::floor(number)))
    fraction_ = std::string(field);
  if (classes_.size() <= kMostColumnClasses) return absl::OkStatus();
  if (HasRealNumbers()) return RealNumbers();
  return InvalidArgumentError(
      "more than ", kMostColumnClasses, " different classes, as \"",
      std::string(field.substr(0, 40)),
      "\"; to predict a number, set model.loss to squared, smooth_l1 or poisson");
}

bool TargetReader::HasRealNumbers() const {
  return !names_.empty() && !word_ && !fraction_.empty() &&
         RarelyRepeat(class_of_row_.size(), classes_.size());
}

absl::Status TargetReader::RealNumbers() const {
  return InvalidArgumentError("data.target ", names_[0], " has real numbers, as ", fraction_,
                              ": set model.loss: squared (or smooth_l1, poisson)",
                              DecimalCommaText(fraction_));
}

std::vector<int32_t> TargetReader::SortedClasses(size_t training) const {
  std::vector<const std::string*> names(classes_.size());
  for (const auto& [name, number] : classes_) names[static_cast<size_t>(number)] = &name;
  std::vector<bool> known(classes_.size());
  for (size_t row = 0; row < training; ++row) known[static_cast<size_t>(class_of_row_[row])] = true;
  std::vector<int32_t> sorted(classes_.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::erase_if(sorted, [&](int32_t number) { return !known[static_cast<size_t>(number)]; });
  std::ranges::sort(sorted, [&](int32_t a, int32_t b) {
    return Before(!text_, *names[static_cast<size_t>(a)], *names[static_cast<size_t>(b)]);
  });
  return sorted;
}

absl::StatusOr<RowTargets> TargetReader::Finish(size_t training, const PlaceOfRow& place) && {
  if (kind_ != Targets::Kind::kNone)
    return RealTargets(kind_, names_, values_, training, standardize_);
  if (HasRealNumbers()) return RealNumbers();
  const std::vector<int32_t> sorted = SortedClasses(training);
  if (sorted.size() < 2) {
    return absl::InvalidArgumentError(
        "all training rows have the same class; choose another target, or mix the rows");
  }
  std::vector<int32_t> label_of_class(classes_.size(), -1);
  for (size_t label = 0; label < sorted.size(); ++label) {
    label_of_class[static_cast<size_t>(sorted[label])] = static_cast<int32_t>(label);
  }
  RowTargets rows;
  rows.classes = static_cast<int>(sorted.size());
  rows.class_names.resize(sorted.size());
  for (const auto& [name, number] : classes_) {
    const int32_t label = label_of_class[static_cast<size_t>(number)];
    if (label >= 0) rows.class_names[static_cast<size_t>(label)] = name;
  }
  for (size_t row = 0; row < class_of_row_.size(); ++row) {
    const int32_t label = label_of_class[static_cast<size_t>(class_of_row_[row])];
    if (label < 0) {
      return InvalidArgumentError(
          place(row),
          ": no training row has this class; mix the rows, or choose another test "
          "(data.table); to predict a number, set model.loss to squared");
    }
    rows.labels.push_back(label);
  }
  return rows;
}

}  // namespace psgd
