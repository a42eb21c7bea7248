#include "data/sparse_table.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "common/units.h"
#include "data/lines.h"
#include "data/row_targets.h"
#include "data/table_rows.h"

namespace psgd {
namespace {

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

// The samples of one or two files, in one order.
struct SparseFiles {
  SparseRows rows;
  RowPlaces places;
};

absl::Status ReadRows(const std::string& path, const SparseTableOptions& options,
                      SparseFiles* files) {
  files->places.BeginFile(path);
  SparseRow row;
  const size_t before = files->rows.size();
  const int64_t buckets = options.features > 0 ? options.features : kCriteoBuckets;
  const bool classes = KindOf(options.kind) == Targets::Kind::kNone;
  PSGD_RETURN_IF_ERROR(
      ForEachNumberedLine(path, [&](absl::string_view line, size_t number) -> absl::Status {
        if (!options.criteo) {
          line = line.substr(0, line.find('#'));
          if (absl::StripLeadingAsciiWhitespace(line).empty()) return absl::OkStatus();
        }
        PSGD_RETURN_IF_ERROR(options.criteo ? ParseCriteo(line, buckets, &row)
                                            : ParseLibsvm(line, &row));
        if (options.features == 0 && !options.criteo) PSGD_RETURN_IF_ERROR(CheckLargestIndex(row));
        if (!classes && std::abs(row.label) > kLargestNumber) {
          return InvalidArgumentError("its number is ", row.label, ", above 1e30 in size");
        }
        files->rows.Add(row);
        return files->places.Add(number);
      }));
  if (files->rows.size() == before) return InvalidArgumentError(path, " has no samples");
  return absl::OkStatus();
}

absl::StatusOr<RowTargets> TargetsOf(const SparseFiles& files, Targets::Kind kind,
                                     size_t training) {
  const auto place = [&](size_t row) { return files.places.FileLine(row) + ": its label"; };
  if (kind != Targets::Kind::kNone) {
    return CheckedTargets(kind, {"label"}, files.rows.labels, training, place);
  }
  return NumberClasses(files.rows.labels, training, files.places.first_file() + ": the label",
                       place);
}

}  // namespace

absl::StatusOr<TrainAndTest> LoadSparseTable(const SparseTableOptions& options) {
  SparseFiles files;
  PSGD_RETURN_IF_ERROR(ReadRows(options.path, options, &files));
  std::string test_path = options.test;
  std::error_code error;
  if (test_path.empty() && std::filesystem::exists(options.path + ".t", error)) {
    test_path = options.path + ".t";
  }
  size_t training = files.rows.size();
  if (test_path.empty()) {
    PSGD_ASSIGN_OR_RETURN(training, TrainingRows(options.path, training, options.test_fraction));
  } else {
    PSGD_RETURN_IF_ERROR(ReadRows(test_path, options, &files));
  }
  PSGD_ASSIGN_OR_RETURN(RowTargets made, TargetsOf(files, KindOf(options.kind), training));
  const auto targets = std::make_shared<const RowTargets>(std::move(made));
  const auto rows = std::make_shared<const SparseRows>(std::move(files.rows));

  const int64_t found = rows->features();
  if (!options.criteo && options.features > 0 && found > options.features) {
    return InvalidArgumentError(options.path, " has index ", found, ", but data.table.features is ",
                                options.features, "; raise it, or set it to 0");
  }
  SampleShape shape;
  shape.classes = targets->classes;
  shape.targets = static_cast<int>(targets->targets.names.size());
  shape.entries = static_cast<int>(std::max<int64_t>(1, rows->widest()));
  const int64_t wanted = options.features > 0 ? options.features
                         : options.criteo     ? kCriteoBuckets
                                              : found;
  shape.vocabulary =
      static_cast<int>(std::max<int64_t>(1, wanted + (options.criteo ? kCriteoCounts : 0)));
  return TrainAndTest{SparseSamples(rows, targets, 0, training, shape),
                      SparseSamples(rows, targets, training, rows->size(), shape),
                      targets->targets,
                      {},
                      TargetsNote(options.path, *targets, training, /*split=*/test_path.empty())};
}

}  // namespace psgd
