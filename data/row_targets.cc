#include "data/row_targets.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "data/table_rows.h"

namespace psgd {
namespace {

constexpr size_t kFewClasses = 20;
constexpr size_t kFewRows = 10;  // of a test: they may be alike by chance

// Whole numbers have all their digits.
std::string NameOf(double number) {
  const bool whole = std::abs(number) < kLargestExact && number == std::floor(number);
  return whole ? absl::StrCat(static_cast<int64_t>(number)) : absl::StrFormat("%.15g", number);
}

constexpr char kMixText[] =
    "; mix the rows first, unless they are in the order of time, or name a test file "
    "(data.table.test)";

// If the rows behind the first `training` all have one class, and not by chance.
std::string SortedClassesText(const std::string& path, const RowTargets& rows, size_t training) {
  constexpr double kUnlikely = 0.01;
  const auto test = std::span(rows.labels).subspan(std::min(training, rows.labels.size()));
  const bool one_class =
      std::ranges::all_of(test, [&](int32_t label) { return label == test.front(); });
  if (test.size() < kFewRows || !one_class) return "";
  const auto first = rows.labels.begin(), last = first + static_cast<ptrdiff_t>(training);
  const double share =
      static_cast<double>(std::count(first, last, test.front())) / static_cast<double>(training);
  // In mixed rows, so many test rows may have one class by chance.
  if (std::pow(share, static_cast<double>(test.size())) > kUnlikely) return "";
  return absl::StrCat(path, ": all ", test.size(),
                      " test rows, the last of the file, have the class ",
                      rows.class_names[static_cast<size_t>(test.front())], kMixText);
}

// If a target of the rows behind the first `training` is always larger, or always smaller.
std::string SortedNumbersText(const std::string& path, const RowTargets& rows, size_t training) {
  const size_t each = rows.targets.names.size(), all = each == 0 ? 0 : rows.values.size() / each;
  if (all < training + kFewRows) return "";
  for (size_t t = 0; t < each; ++t) {
    const auto range = [&](size_t begin, size_t end) {
      std::pair<float, float> found(rows.values[begin * each + t], rows.values[begin * each + t]);
      for (size_t row = begin; row < end; ++row) {
        const float value = rows.values[row * each + t];
        found = {std::min(found.first, value), std::max(found.second, value)};
      }
      return found;
    };
    const auto [least, most] = range(0, training);
    const auto [test_least, test_most] = range(training, all);
    if (test_least <= most && test_most >= least) continue;
    return absl::StrCat(path, ": all ", all - training, " test rows, the last of the file, have a ",
                        test_least > most ? "larger " : "smaller ", rows.targets.names[t],
                        " than any other", kMixText);
  }
  return "";
}

}  // namespace

Targets::Kind KindOf(DataConfig::TargetKind kind) {
  switch (kind) {
    case DataConfig::NUMBER:
      return Targets::Kind::kNumber;
    case DataConfig::COUNT:
      return Targets::Kind::kCount;
    case DataConfig::LABELS:
      return Targets::Kind::kLabel;
    default:
      return Targets::Kind::kNone;
  }
}

absl::Status NotFinite(double value) {
  return InvalidArgumentError(value, " is not finite, or above 1e30; replace it");
}

absl::Status CheckTarget(Targets::Kind kind, double value) {
  if (!(std::abs(value) <= kLargestNumber)) return NotFinite(value);
  if (kind == Targets::Kind::kCount && value < 0) {
    return InvalidArgumentError(value,
                                " is below 0, which no count is; to predict any number, set "
                                "model.loss to squared or smooth_l1");
  }
  if (kind == Targets::Kind::kLabel && value != 0 && value != 1) {
    return InvalidArgumentError(value,
                                " is neither 0 nor 1, as labels are (model.loss: sigmoid); to "
                                "predict a number, set model.loss to squared or smooth_l1");
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> TrainingRows(const std::string& path, size_t rows, double test_fraction) {
  const auto training = static_cast<size_t>(static_cast<double>(rows) * (1 - test_fraction));
  if (training > 0 && training < rows) return training;
  return InvalidArgumentError(path, ": ", rows, " samples are too few to keep ", test_fraction,
                              " of them for the test; name a test file in data.table.test");
}

void RowTargets::ReadTargets(size_t row, std::span<float> out) const {
  std::copy_n(values.begin() + static_cast<ptrdiff_t>(row * out.size()), out.size(), out.begin());
}

void RowTargets::Read(size_t row, const Sample& sample) const {
  sample.labels[0] = LabelOf(row);
  ReadTargets(row, sample.targets);
}

std::string ClassesText(const std::vector<std::string>& names, const std::vector<bool>& tested) {
  constexpr size_t kMostClasses = 12;  // in a note
  if (names.empty()) return "";
  std::vector<std::string> untested;
  for (size_t label = 0; label < names.size(); ++label) {
    if (!tested[label]) untested.push_back(names[label]);
  }
  return absl::StrCat(names.size(), " classes: ", SomeOf(names, kMostClasses),
                      untested.empty() ? "" : "; no test sample has ",
                      SomeOf(untested, kMostClasses));
}

std::string TargetsNote(const std::string& path, const RowTargets& rows, size_t training,
                        bool split) {
  std::vector<bool> tested(rows.class_names.size());
  for (size_t row = training; row < rows.labels.size(); ++row) {
    const int32_t label = rows.labels[row];
    if (label >= 0 && !tested.empty()) tested[static_cast<size_t>(label)] = true;
  }
  std::string note = ClassesText(rows.class_names, tested);
  if (!split) return note;
  AddNote(SortedClassesText(path, rows, training), &note);
  AddNote(SortedNumbersText(path, rows, training), &note);
  return note;
}

std::string UnusedClassesNote(std::span<const int32_t> labels, const PlaceOfRow& place) {
  const auto largest = std::ranges::max_element(labels);
  if (largest == labels.end() || *largest < 0) return "";
  std::vector<bool> used(static_cast<size_t>(*largest) + 1);
  for (const int32_t label : labels) {
    if (label >= 0) used[static_cast<size_t>(label)] = true;
  }
  const auto unused = std::ranges::count(used, false);
  if (unused == 0) return "";
  return absl::StrCat(unused, " of the ", used.size(),
                      unused == 1 ? " classes has" : " classes have",
                      " no training sample; is a label wrong? the largest label is ", *largest,
                      " (", place(static_cast<size_t>(largest - labels.begin())), ")");
}

bool RarelyRepeat(size_t rows, size_t values) { return values > kFewClasses && rows < 2 * values; }

absl::StatusOr<RowTargets> NumberClasses(const std::vector<double>& numbers, size_t training,
                                         absl::string_view what, const PlaceOfRow& place) {
  const std::set<double> classes(numbers.begin(),
                                 numbers.begin() + static_cast<ptrdiff_t>(training));
  if (classes.size() < 2 || classes.size() > kMostNumberClasses) {
    return InvalidArgumentError(
        what, " has ", classes.size(),
        " different numbers in the training samples; classes are at least 2, and at most ",
        kMostNumberClasses,
        "; to predict a number, set model.loss to squared, smooth_l1 or poisson");
  }
  const auto fraction =
      std::ranges::find_if(classes, [](double number) { return number != std::floor(number); });
  if (fraction != classes.end() && RarelyRepeat(training, classes.size())) {
    return InvalidArgumentError(what, " has ", classes.size(), " different numbers, as ",
                                NameOf(*fraction),
                                ": to predict a number, set model.loss: squared (or smooth_l1, "
                                "poisson)");
  }
  RowTargets rows;
  rows.classes = static_cast<int>(classes.size());
  const std::vector<double> sorted(classes.begin(), classes.end());
  for (const double number : sorted) rows.class_names.push_back(NameOf(number));
  rows.labels.reserve(numbers.size());
  for (size_t row = 0; row < numbers.size(); ++row) {
    const auto found = std::lower_bound(sorted.begin(), sorted.end(), numbers[row]);
    if (found == sorted.end() || *found != numbers[row]) {
      return InvalidArgumentError(
          place(row), " is ", NameOf(numbers[row]), ", a class that no training sample has; ",
          classes.size() > kFewClasses ? "to predict a number, set model.loss: squared; or " : "",
          "mix the samples, or choose another test (data.table)");
    }
    rows.labels.push_back(static_cast<int32_t>(found - sorted.begin()));
  }
  return rows;
}

absl::StatusOr<RowTargets> CheckedTargets(Targets::Kind kind, std::vector<std::string> names,
                                          const std::vector<double>& values, size_t training,
                                          const PlaceOfRow& place, bool standardize) {
  const size_t each = names.size();
  for (size_t i = 0; i < values.size(); ++i) {
    const absl::Status fits = CheckTarget(kind, values[i]);
    if (!fits.ok()) return Annotate(fits, place(i / each));
  }
  return RealTargets(kind, std::move(names), values, training, standardize);
}

RowTargets RealTargets(Targets::Kind kind, std::vector<std::string> names,
                       const std::vector<double>& values, size_t training, bool standardize) {
  const size_t each = names.size();
  RowTargets rows;
  rows.classes = static_cast<int>(each);
  rows.targets = {kind, std::move(names), std::vector<NumberScale>(each)};
  for (size_t t = 0; standardize && kind == Targets::Kind::kNumber && t < each; ++t) {
    const auto scale = MeasureScale(training, [&](size_t row) { return values[row * each + t]; });
    rows.targets.scales[t] = scale.value_or(NumberScale());
  }
  rows.values.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    rows.values.push_back(rows.targets.scales[i % each].Of(values[i]));
  }
  return rows;
}

}  // namespace psgd
