#include "data/sparse_table.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "absl/strings/ascii.h"
#include "common/units.h"
#include "data/lines.h"
#include "data/row_targets.h"

namespace psgd {
namespace {

constexpr size_t kMostTableClasses = 100000;  // more classes mean that the labels are real numbers
// A typing error would make a model of gigabytes, so more features need an explicit setting.
constexpr int64_t kMostFeaturesUnasked = int64_t{1} << 26;

absl::Status CheckLargestIndex(const SparseRow& row) {
  const int64_t largest = row.entries.empty() ? 0 : row.entries.back().index + int64_t{1};
  if (largest <= kMostFeaturesUnasked) return absl::OkStatus();
  const double bytes = static_cast<double>(largest) * sizeof(float);
  return InvalidArgumentError("index ", largest,
                              " means a model of as many features: ", HumanBytes(bytes),
                              " for each class (one for two) on the server, and twice that in each "
                              "worker; if it is no mistake, set data.table.features to ",
                              largest, " or more");
}

absl::StatusOr<std::shared_ptr<SparseRows>> ReadRows(const std::string& path,
                                                     const SparseTableOptions& options) {
  auto rows = std::make_shared<SparseRows>();
  SparseRow row;
  const int64_t buckets = options.features > 0 ? options.features : kCriteoBuckets;
  PSGD_RETURN_IF_ERROR(ForEachLine(path, [&](absl::string_view line) -> absl::Status {
    if (!options.criteo) {
      line = line.substr(0, line.find('#'));
      if (absl::StripLeadingAsciiWhitespace(line).empty()) return absl::OkStatus();
    }
    PSGD_RETURN_IF_ERROR(options.criteo ? ParseCriteo(line, buckets, &row)
                                        : ParseLibsvm(line, &row));
    if (options.features == 0 && !options.criteo) PSGD_RETURN_IF_ERROR(CheckLargestIndex(row));
    if (rows->size() == kMostSamples) {
      return absl::InvalidArgumentError("more than 2^30 lines; use a part of the file");
    }
    rows->Add(row);
    return absl::OkStatus();
  }));
  if (rows->size() == 0) return InvalidArgumentError(path, " has no samples");
  return rows;
}

// Returns the distinct labels of the first `count` rows.
absl::StatusOr<std::vector<double>> ClassesOf(const std::string& path, const SparseRows& rows,
                                              size_t count) {
  const std::set<double> labels(rows.labels.begin(),
                                rows.labels.begin() + static_cast<ptrdiff_t>(count));
  if (labels.size() < 2 || labels.size() > kMostTableClasses) {
    return InvalidArgumentError(
        path, " has ", labels.size(),
        " different labels on its training lines; classes are at least 2, and at most ",
        kMostTableClasses);
  }
  return std::vector<double>(labels.begin(), labels.end());
}

absl::Status CheckTest(const std::string& path, const SparseRows& test, size_t begin,
                       const std::vector<double>& classes) {
  for (size_t i = begin; i < test.size(); ++i) {
    if (std::binary_search(classes.begin(), classes.end(), test.labels[i])) continue;
    return InvalidArgumentError(
        path, ": test sample ", i - begin, " has label ", test.labels[i],
        ", which no training sample has; use another split, or data.table.test");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TrainAndTest> LoadSparseTable(const SparseTableOptions& options) {
  PSGD_ASSIGN_OR_RETURN(const std::shared_ptr<SparseRows> rows, ReadRows(options.path, options));
  std::string test_path = options.test;
  std::error_code error;
  if (test_path.empty() && std::filesystem::exists(options.path + ".t", error)) {
    test_path = options.path + ".t";
  }
  std::shared_ptr<SparseRows> test_rows = rows;
  size_t train_size = rows->size(), test_begin = 0;
  if (test_path.empty()) {
    test_path = options.path;
    PSGD_ASSIGN_OR_RETURN(train_size,
                          TrainingRows(options.path, rows->size(), options.test_fraction));
    test_begin = train_size;
  } else {
    PSGD_ASSIGN_OR_RETURN(test_rows, ReadRows(test_path, options));
  }
  PSGD_ASSIGN_OR_RETURN(const std::vector<double> classes,
                        ClassesOf(options.path, *rows, train_size));
  PSGD_RETURN_IF_ERROR(CheckTest(test_path, *test_rows, test_begin, classes));

  const int64_t found = std::max(rows->features(), test_rows->features());
  if (!options.criteo && options.features > 0 && found > options.features) {
    return InvalidArgumentError(options.path, " has index ", found, ", but data.table.features is ",
                                options.features, "; raise it, or set it to 0");
  }
  SampleShape shape;
  shape.classes = static_cast<int>(classes.size());
  shape.entries =
      static_cast<int>(std::max<int64_t>(1, std::max(rows->widest(), test_rows->widest())));
  const int64_t wanted = options.features > 0 ? options.features
                         : options.criteo     ? kCriteoBuckets
                                              : found;
  shape.vocabulary =
      static_cast<int>(std::max<int64_t>(1, wanted + (options.criteo ? kCriteoCounts : 0)));
  TrainAndTest sets;
  sets.train = std::make_shared<SparseRowsDataset>(rows, 0, train_size, shape, classes);
  sets.test =
      std::make_shared<SparseRowsDataset>(test_rows, test_begin, test_rows->size(), shape, classes);
  return sets;
}

}  // namespace psgd
