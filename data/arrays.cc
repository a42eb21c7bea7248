#include "data/arrays.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "data/npy.h"
#include "data/number_scale.h"
#include "data/preparation.h"
#include "data/range_file.h"
#include "data/row_targets.h"
#include "data/zip.h"

namespace psgd {
namespace {

constexpr uint64_t kMostArrayBytes = uint64_t{1} << 40;
constexpr size_t kMostArraySide = size_t{1} << 20;  // of a sample's shape
constexpr size_t kMostArrayTargets = 1 << 16;

struct ArrayRows {
  SampleShape shape;
  std::vector<float> values;  // samples x elements
  RowTargets targets;
  Preparation preparation;
};

// A range of samples. Thread-safe: immutable.
class ArrayDataset final : public Dataset {
 public:
  ArrayDataset(std::shared_ptr<const ArrayRows> rows, size_t begin, size_t end)
      : rows_(std::move(rows)), begin_(begin), size_(end - begin) {}

  size_t size() const override { return size_; }
  SampleShape shape() const override { return rows_->shape; }
  absl::Status Read(const SampleKey& key, const Sample& sample) const override {
    const size_t row = begin_ + key.index, each = sample.values.size();
    std::copy_n(rows_->values.begin() + static_cast<ptrdiff_t>(row * each), each,
                sample.values.begin());
    rows_->targets.Read(row, sample);
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const ArrayRows> rows_;
  const size_t begin_, size_;
};

// x and y of one file.
struct ArrayPair {
  std::string path;
  NpyArray x, y;

  size_t samples() const { return x.shape()[0]; }
};

std::string AxesText(const NpyArray& array) {
  return absl::StrCat("(", absl::StrJoin(array.shape(), ", "), ")");
}

absl::StatusOr<NpyArray> ReadMember(const ZipFile& zip, const std::string& path,
                                    const std::string& name) {
  const std::string member = name + ".npy";
  if (!zip.Has(member)) {
    return InvalidArgumentError(path, " has no array ", name, ", but ",
                                absl::StrJoin(zip.names(), ", "),
                                "; write it with numpy.savez(file, x=..., y=...)");
  }
  PSGD_ASSIGN_OR_RETURN(std::vector<uint8_t> bytes, zip.Read(member));
  return NpyArray::Parse(std::move(bytes), absl::StrCat(path, ": ", name));
}

absl::StatusOr<NpyArray> ReadFileOf(const std::string& folder, const std::string& name) {
  const std::string path = absl::StrCat(folder, "/", name, ".npy");
  PSGD_ASSIGN_OR_RETURN(std::vector<uint8_t> bytes, ReadWholeFile(path, kMostArrayBytes));
  return NpyArray::Parse(std::move(bytes), path);
}

absl::StatusOr<NpyArray> ReadX(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return ReadFileOf(path, "x");
  if (absl::EndsWith(path, ".npy")) {
    PSGD_ASSIGN_OR_RETURN(std::vector<uint8_t> bytes, ReadWholeFile(path, kMostArrayBytes));
    return NpyArray::Parse(std::move(bytes), path);
  }
  PSGD_ASSIGN_OR_RETURN(const ZipFile zip, ZipFile::Open(path));
  return ReadMember(zip, path, "x");
}

// The sides of a sample, without those of 1 at the front.
std::vector<size_t> InnerSides(std::vector<size_t> sides) {
  const auto inner =
      std::find_if(sides.begin(), sides.end(), [](size_t side) { return side != 1; });
  sides.erase(sides.begin(), inner);
  return sides;
}

absl::Status NotFinite(double number, absl::string_view place) {
  return InvalidArgumentError(place, " has ", number,
                              "; replace what is not finite, or above 1e30");
}

absl::Status CheckAxes(const ArrayPair& pair) {
  const std::vector<size_t>&x = pair.x.shape(), &y = pair.y.shape();
  if (x.size() < 2 || x.size() > 4) {
    return InvalidArgumentError(pair.path, ": x is ", AxesText(pair.x),
                                "; it must be samples x columns, samples x height x width, or "
                                "samples x channels x height x width");
  }
  if (y.empty() || y.size() > 2 || y[0] != x[0]) {
    return InvalidArgumentError(pair.path, ": y is ", AxesText(pair.y), " and x is ",
                                AxesText(pair.x),
                                "; y must have as many samples, each of one number or of several");
  }
  if (x[0] == 0 || x[0] > kMostSamples) {
    return InvalidArgumentError(pair.path, " has ", x[0], " samples; give from 1 to ",
                                kMostSamples);
  }
  const bool fits = std::all_of(x.begin() + 1, x.end(),
                                [](size_t side) { return side > 0 && side <= kMostArraySide; });
  if (fits && pair.x.size() / x[0] <= kMostArraySide &&
      (y.size() == 1 || y[1] <= kMostArrayTargets)) {
    return absl::OkStatus();
  }
  return InvalidArgumentError(pair.path, ": x is ", AxesText(pair.x), " and y is ",
                              AxesText(pair.y), "; a sample is empty, or has more than ",
                              kMostArraySide, " numbers or ", kMostArrayTargets, " targets");
}

absl::StatusOr<ArrayPair> ReadPair(const std::string& path) {
  if (absl::EndsWith(path, ".npy")) {
    return InvalidArgumentError(path,
                                " is one array, and samples have two, x and y; set data.path to "
                                "a folder with x.npy and y.npy, or to an .npz file "
                                "(numpy.savez(file, x=..., y=...))");
  }
  std::error_code error;
  const auto pair = [&]() -> absl::StatusOr<ArrayPair> {
    if (std::filesystem::is_directory(path, error)) {
      PSGD_ASSIGN_OR_RETURN(NpyArray x, ReadFileOf(path, "x"));
      PSGD_ASSIGN_OR_RETURN(NpyArray y, ReadFileOf(path, "y"));
      return ArrayPair{path, std::move(x), std::move(y)};
    }
    PSGD_ASSIGN_OR_RETURN(const ZipFile zip, ZipFile::Open(path));
    PSGD_ASSIGN_OR_RETURN(NpyArray x, ReadMember(zip, path, "x"));
    PSGD_ASSIGN_OR_RETURN(NpyArray y, ReadMember(zip, path, "y"));
    return ArrayPair{path, std::move(x), std::move(y)};
  };
  absl::StatusOr<ArrayPair> read = pair();
  if (read.ok()) PSGD_RETURN_IF_ERROR(CheckAxes(*read));
  return read;
}

// The samples of one or two files, in one order.
class JoinedPairs {
 public:
  explicit JoinedPairs(std::vector<ArrayPair> pairs) : pairs_(std::move(pairs)) {
    for (const ArrayPair& pair : pairs_) samples_ += pair.samples();
  }

  size_t samples() const { return samples_; }
  const ArrayPair& first() const { return pairs_.front(); }
  size_t each_x() const { return first().x.size() / first().samples(); }
  size_t each_y() const { return first().y.size() / first().samples(); }

  absl::Status CheckAlike() const;
  // Appends the numbers of x or y of all files, in order.
  absl::Status ReadAll(NpyArray ArrayPair::*array, const char* name,
                       std::vector<double>* numbers) const;
  absl::StatusOr<ArrayRows> Finish(Targets::Kind kind, size_t training) const;

 private:
  absl::StatusOr<RowTargets> ReadTargets(Targets::Kind kind, size_t training) const;
  absl::StatusOr<RowTargets> Classes(const std::vector<double>& numbers, size_t training) const;
  // "FILE: y[17]".
  std::string Place(const char* name, size_t sample) const;

  std::vector<ArrayPair> pairs_;
  size_t samples_ = 0;
};

std::string JoinedPairs::Place(const char* name, size_t sample) const {
  const bool of_test = sample >= first().samples();
  return absl::StrCat(pairs_[of_test ? 1 : 0].path, ": ", name, "[",
                      sample - (of_test ? first().samples() : 0), "]");
}

absl::Status JoinedPairs::CheckAlike() const {
  const ArrayPair& other = pairs_.back();
  const auto rest = [](const NpyArray& array) {
    return std::vector<size_t>(array.shape().begin() + 1, array.shape().end());
  };
  if (rest(first().x) == rest(other.x) && rest(first().y) == rest(other.y)) {
    return absl::OkStatus();
  }
  return InvalidArgumentError(other.path, ": x is ", AxesText(other.x), " and y is ",
                              AxesText(other.y), ", but in ", first().path, " they are ",
                              AxesText(first().x), " and ", AxesText(first().y),
                              "; only the number of samples may differ");
}

absl::Status JoinedPairs::ReadAll(NpyArray ArrayPair::*array, const char* name,
                                  std::vector<double>* numbers) const {
  for (const ArrayPair& pair : pairs_) {
    const NpyArray& from = pair.*array;
    for (size_t i = 0; i < from.size(); ++i) {
      const double number = from.At(i);
      const size_t sample = numbers->size() / (from.size() / pair.samples());
      if (!(std::abs(number) <= kLargestNumber)) return NotFinite(number, Place(name, sample));
      numbers->push_back(number);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<RowTargets> JoinedPairs::Classes(const std::vector<double>& numbers,
                                                size_t training) const {
  if (each_y() != 1) {
    return InvalidArgumentError(first().path, ": y has ", each_y(),
                                " numbers a sample, but a sample has one class; set model.loss to "
                                "sigmoid if they are labels of 0 or 1, or to squared, smooth_l1 or "
                                "poisson if they are numbers");
  }
  return NumberClasses(numbers, training, absl::StrCat(first().path, ": y"),
                       [this](size_t sample) { return Place("y", sample); });
}

absl::StatusOr<RowTargets> JoinedPairs::ReadTargets(Targets::Kind kind, size_t training) const {
  std::vector<double> numbers;
  numbers.reserve(samples_ * each_y());
  PSGD_RETURN_IF_ERROR(ReadAll(&ArrayPair::y, "y", &numbers));
  if (kind == Targets::Kind::kNone) return Classes(numbers, training);
  std::vector<std::string> names;
  for (size_t t = 0; t < each_y(); ++t) names.push_back(each_y() == 1 ? "y" : absl::StrCat("y", t));
  return CheckedTargets(kind, std::move(names), numbers, training,
                        [this](size_t sample) { return Place("y", sample); });
}

// A plane is what shares a mean and a deviation: a column of a row, or a channel of an image.
absl::StatusOr<ArrayRows> JoinedPairs::Finish(Targets::Kind kind, size_t training) const {
  const std::vector<size_t>& axes = first().x.shape();
  ArrayRows rows;
  rows.shape.channels = axes.size() == 4 ? static_cast<int>(axes[1]) : 1;
  rows.shape.height = axes.size() == 2 ? 1 : static_cast<int>(axes[axes.size() - 2]);
  rows.shape.width = static_cast<int>(axes.back());
  PSGD_ASSIGN_OR_RETURN(rows.targets, ReadTargets(kind, training));
  rows.shape.classes = rows.targets.classes;
  rows.shape.targets = static_cast<int>(rows.targets.targets.names.size());
  std::vector<double> numbers;
  numbers.reserve(samples_ * each_x());
  PSGD_RETURN_IF_ERROR(ReadAll(&ArrayPair::x, "x", &numbers));
  const size_t planes = axes.size() == 2 ? each_x() : static_cast<size_t>(rows.shape.channels);
  const size_t plane = each_x() / planes;
  rows.values.resize(numbers.size());
  for (size_t p = 0; p < planes; ++p) {
    const auto at = [&](size_t i) { return i / plane * each_x() + p * plane + i % plane; };
    const NumberScale scale = MeasureScale(training * plane, [&](size_t i) {
                                return numbers[at(i)];
                              }).value_or(NumberScale());
    for (size_t i = 0; i < samples_ * plane; ++i) rows.values[at(i)] = scale.Of(numbers[at(i)]);
    *rows.preparation.add_planes() = RecordOf(scale);
  }
  RecordClasses(rows.targets.class_names, &rows.preparation);
  return rows;
}

}  // namespace

absl::StatusOr<std::vector<float>> LoadNewArray(const std::string& path, const SampleShape& shape,
                                                std::span<const NumberScale> scales) {
  PSGD_ASSIGN_OR_RETURN(const NpyArray x, ReadX(path));
  const size_t each = shape.elements();
  std::vector<size_t> sides = x.shape();
  if (!sides.empty()) sides.erase(sides.begin());
  const std::vector<size_t> wanted = {static_cast<size_t>(shape.channels),
                                      static_cast<size_t>(shape.height),
                                      static_cast<size_t>(shape.width)};
  if (x.size() == 0 || x.size() / each > kMostSamples || InnerSides(sides) != InnerSides(wanted)) {
    return InvalidArgumentError(path, ": x is ", AxesText(x),
                                ", but the run trained on samples of ", shape.ImageText(),
                                "; the first axis counts samples");
  }
  const size_t plane = each / scales.size();
  std::vector<float> values;
  values.reserve(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double number = x.At(i);
    if (!(std::abs(number) <= kLargestNumber)) {
      return NotFinite(number, absl::StrCat(path, ": x[", i / each, "]"));
    }
    values.push_back(scales[i % each / plane].Of(number));
  }
  return values;
}

absl::StatusOr<TrainAndTest> LoadArrays(const ArraysOptions& options) {
  std::vector<ArrayPair> pairs;
  PSGD_ASSIGN_OR_RETURN(ArrayPair pair, ReadPair(options.path));
  size_t training = pair.samples();
  pairs.push_back(std::move(pair));
  if (!options.test.empty()) {
    PSGD_ASSIGN_OR_RETURN(ArrayPair test, ReadPair(options.test));
    pairs.push_back(std::move(test));
  } else {
    PSGD_ASSIGN_OR_RETURN(training, TrainingRows(options.path, training, options.test_fraction));
  }
  const JoinedPairs joined(std::move(pairs));
  PSGD_RETURN_IF_ERROR(joined.CheckAlike());
  PSGD_ASSIGN_OR_RETURN(ArrayRows all, joined.Finish(KindOf(options.kind), training));
  auto rows = std::make_shared<const ArrayRows>(std::move(all));
  return TrainAndTest{std::make_shared<ArrayDataset>(rows, 0, training),
                      std::make_shared<ArrayDataset>(rows, training, joined.samples()),
                      rows->targets.targets, rows->preparation};
}

}  // namespace psgd
