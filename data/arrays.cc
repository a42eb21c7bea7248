#include "data/arrays.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
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
#include "data/segmentation.h"
#include "data/zip.h"

namespace psgd {
namespace {

constexpr uint64_t kMostArrayBytes = uint64_t{1} << 40;
constexpr size_t kMostArraySide = size_t{1} << 20;  // of a sample's shape
constexpr size_t kMostArrayTargets = 1 << 16;
constexpr int kMostTokens = 1 << 26;

// The samples of one or two files, in one order.
struct ArrayRows {
  SampleShape shape;
  std::vector<float> values;    // samples x elements; empty if they are tokens
  std::vector<int32_t> tokens;  // likewise
  RowTargets targets;
  std::vector<int32_t> places;  // samples x labels, if tokens or pixels have a label each
  Preparation preparation;
  std::string note;  // for people; empty: none
};

// The samples from `begin` to `end`.
std::shared_ptr<const Dataset> ArraySamples(std::shared_ptr<const ArrayRows> rows, size_t begin,
                                            size_t end) {
  const auto read = [rows, begin](const SampleKey& key, const Sample& sample) {
    const size_t row = begin + key.index;
    const auto copy = [row](const auto& from, auto to) {
      std::copy_n(from.begin() + static_cast<ptrdiff_t>(row * to.size()), to.size(), to.begin());
    };
    if (rows->tokens.empty()) {
      copy(rows->values, sample.values);
    } else {
      copy(rows->tokens, sample.tokens);
    }
    if (rows->places.empty()) {
      rows->targets.Read(row, sample);
    } else {
      copy(rows->places, sample.labels);
    }
    return absl::OkStatus();
  };
  return std::make_shared<ReadDataset>(end - begin, rows->shape, read);
}

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
  const auto inner = std::ranges::find_if(sides, [](size_t side) { return side != 1; });
  sides.erase(sides.begin(), inner);
  return sides;
}

// Whether x is rather samples x height x width x channels than images of many channels.
bool IsChannelsLast(const NpyArray& x) {
  constexpr size_t kMostColours = 4;
  const std::vector<size_t>& axes = x.shape();
  return axes.size() == 4 && axes[3] <= kMostColours && axes[3] != 2 &&
         std::min(axes[1], axes[2]) > kMostColours;
}

// Whether y has the height and the width of x, which IsChannelsLast.
bool HasSidesOf(const NpyArray& x, const NpyArray& y) {
  return std::ranges::search(y.shape(), std::span(x.shape()).subspan(1, 2)).size() == 2;
}

absl::StatusOr<int32_t> TokenOf(double number) {
  if (number >= 0 && number < kMostTokens && number == std::floor(number)) {
    return static_cast<int32_t>(number);
  }
  return InvalidArgumentError(number, " is no token: these are whole numbers from 0 to ",
                              kMostTokens - 1);
}

absl::Status CheckTokens(const ArrayPair& pair) {
  if (pair.x.has_whole_numbers() && pair.x.shape().size() == 2) return absl::OkStatus();
  return InvalidArgumentError(
      pair.path, ": ", pair.x_name, " is ", AxesText(pair.x),
      pair.x.has_whole_numbers() ? "" : " of other than whole numbers",
      ", but the model takes tokens, or data.input says so: whole numbers, samples x tokens; "
      "convert it with x.astype('int32') if its numbers are tokens, choose another model, or leave "
      "data.input out");
}

absl::Status CheckAxes(const ArrayPair& pair, ArrayInput::Kind input) {
  const std::vector<size_t>&x = pair.x.shape(), &y = pair.y.shape();
  if (x.size() > 4) {
    return InvalidArgumentError(pair.path, ": ", pair.x_name, " is ", AxesText(pair.x),
                                "; psgd has no convolutions in three dimensions: make the depth "
                                "channels, as with x.reshape(n, channels * depth, height, width)");
  }
  if (x.size() < 2) {
    return InvalidArgumentError(pair.path, ": ", pair.x_name, " is ", AxesText(pair.x),
                                "; it must be samples x columns, samples x height x width, or "
                                "samples x channels x height x width");
  }
  if (y.empty() || y[0] != x[0]) {
    return InvalidArgumentError(pair.path, ": ", pair.y_name, " is ", AxesText(pair.y), " and ",
                                pair.x_name, " is ", AxesText(pair.x),
                                "; y must have as many samples, each of one number or of several");
  }
  if (x[0] == 0 || x[0] > kMostSamples) {
    return InvalidArgumentError(pair.path, " has ", x[0], " samples; give from 1 to ",
                                kMostSamples);
  }
  if (input == ArrayInput::TOKENS) PSGD_RETURN_IF_ERROR(CheckTokens(pair));
  const bool fits = std::all_of(x.begin() + 1, x.end(),
                                [](size_t side) { return side > 0 && side <= kMostArraySide; });
  const size_t each_y = pair.y.size() / x[0];
  if (fits && pair.x.size() / x[0] <= kMostArraySide && each_y > 0 &&
      each_y <= std::max(kMostArrayTargets, pair.x.size() / x[0])) {
    return absl::OkStatus();
  }
  return InvalidArgumentError(pair.path, ": ", pair.x_name, " is ", AxesText(pair.x), " and ",
                              pair.y_name, " is ", AxesText(pair.y),
                              "; a sample is empty, or has more than ", kMostArraySide,
                              " numbers or ", kMostArrayTargets, " targets");
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
  if (read.ok()) read->x.AddColumnAxis();
  return read;
}

class JoinedPairs {
 public:
  JoinedPairs(std::vector<ArrayPair> pairs, size_t training)
      : pairs_(std::move(pairs)), training_(training) {
    for (const ArrayPair& pair : pairs_) samples_ += pair.samples();
  }

  absl::Status CheckAlike() const;
  absl::StatusOr<ArrayRows> Finish(const ArraysOptions& options) const;

 private:
  size_t samples() const { return samples_; }
  const ArrayPair& first() const { return pairs_.front(); }
  size_t each_x() const { return first().x.size() / first().samples(); }
  size_t each_y() const { return first().y.size() / first().samples(); }
  // The numbers of x or y of all files, in order.
  absl::StatusOr<std::vector<double>> ReadAll(NpyArray ArrayPair::*array,
                                              std::string ArrayPair::*name) const;
  absl::Status ReadTargets(Targets::Kind kind, bool standardize, ArrayRows* rows) const;
  absl::Status ReadClasses(const std::vector<double>& numbers, ArrayRows* rows) const;
  // The axes of a y with a label for each token or pixel. Empty: samples have neither.
  std::vector<size_t> PlaceAxes(const SampleShape& shape) const;
  bool HasPlaces(const SampleShape& shape) const;
  // Turns y, which has these numbers, into labels of places, in Python, if its type or an axis of 1
  // alone is wrong. Else empty.
  std::string ToPlaces(const SampleShape& shape, const std::vector<double>& numbers) const;
  // Turns y, which has these numbers, into classes, in Python, if it is one-hot. Else empty.
  std::string FromOneHot(const SampleShape& shape, const std::vector<double>& numbers) const;
  absl::Status ReadPlaces(const std::vector<double>& numbers, ArrayRows* rows) const;
  absl::Status ReadTokens(ArrayRows* rows) const;
  absl::Status ReadNumbers(bool standardize, ArrayRows* rows) const;
  // "FILE: y[17]".
  std::string Place(std::string ArrayPair::*name, size_t sample) const;

  std::vector<ArrayPair> pairs_;
  const size_t training_;
  size_t samples_ = 0;
};

std::string JoinedPairs::Place(std::string ArrayPair::*name, size_t sample) const {
  const bool of_test = sample >= first().samples();
  const ArrayPair& pair = pairs_[of_test ? 1 : 0];
  return absl::StrCat(pair.path, ": ", pair.*name, "[", sample - (of_test ? first().samples() : 0),
                      "]");
}

absl::Status JoinedPairs::CheckAlike() const {
  const ArrayPair& other = pairs_.back();
  const auto rest = [](const NpyArray& array) {
    return std::vector<size_t>(array.shape().begin() + 1, array.shape().end());
  };
  if (rest(first().x) == rest(other.x) && rest(first().y) == rest(other.y)) {
    return absl::OkStatus();
  }
  return InvalidArgumentError(other.path, ": ", other.x_name, " is ", AxesText(other.x), " and ",
                              other.y_name, " is ", AxesText(other.y), ", but in ", first().path,
                              " they are ", AxesText(first().x), " and ", AxesText(first().y),
                              "; only the number of samples may differ");
}

absl::StatusOr<std::vector<double>> JoinedPairs::ReadAll(NpyArray ArrayPair::*array,
                                                         std::string ArrayPair::*name) const {
  std::vector<double> numbers;
  const size_t each = (first().*array).size() / first().samples();
  numbers.reserve(samples_ * each);
  for (const ArrayPair& pair : pairs_) {
    const NpyArray& from = pair.*array;
    for (size_t i = 0; i < from.size(); ++i) {
      const double number = from.At(i);
      if (!(std::abs(number) <= kLargestNumber)) {
        return Annotate(NotFinite(number), Place(name, numbers.size() / each));
      }
      numbers.push_back(number);
    }
  }
  return numbers;
}

absl::Status JoinedPairs::ReadClasses(const std::vector<double>& numbers, ArrayRows* rows) const {
  if (const std::string convert = ToPlaces(rows->shape, numbers); !convert.empty()) {
    return InvalidArgumentError(
        first().path, ": ", first().y_name, " is ", AxesText(first().y),
        first().y.has_whole_numbers() ? "" : " of floats", ", but classes of ",
        rows->shape.IsSequence() ? "tokens" : "pixels", " are whole numbers of the axes (",
        absl::StrJoin(PlaceAxes(rows->shape), ", "), "); convert it with ", convert);
  }
  if (each_y() != 1 && IsChannelsLast(first().x) && HasSidesOf(first().x, first().y)) {
    return InvalidArgumentError(first().path, ": ", first().x_name, " is ", AxesText(first().x),
                                ", it seems samples x height x width x channels; make the "
                                "channels its second axis: x.transpose(0, 3, 1, 2)");
  }
  if (const std::string convert = FromOneHot(rows->shape, numbers); !convert.empty()) {
    return InvalidArgumentError(first().path, ": ", first().y_name, " is ", AxesText(first().y),
                                " with one 1 for each class (one-hot), but classes are numbers "
                                "from 0; convert it with ",
                                convert);
  }
  if (each_y() != 1) {
    return InvalidArgumentError(
        first().path, ": ", first().y_name, " is ", AxesText(first().y), " and ", first().x_name,
        " ", AxesText(first().x),
        ", but a sample has one class, or each of its tokens or pixels has one; set model.loss to "
        "sigmoid if they are labels of 0 or 1, or to squared, smooth_l1 or poisson if they are "
        "numbers");
  }
  for (size_t i = 0; first().y.has_whole_numbers() && i < numbers.size(); ++i) {
    if (std::abs(numbers[i]) < kLargestExact) continue;
    return InvalidArgumentError(Place(&ArrayPair::y_name, i), " is ", numbers[i],
                                ", and above 2^53 neighbours cannot be told apart; number classes "
                                "first, as with y = numpy.unique(y, return_inverse=True)[1]");
  }
  PSGD_ASSIGN_OR_RETURN(
      rows->targets,
      NumberClasses(numbers, training_, absl::StrCat(first().path, ": ", first().y_name),
                    [this](size_t sample) { return Place(&ArrayPair::y_name, sample); }));
  rows->shape.classes = rows->targets.classes;
  RecordClasses(rows->targets.class_names, &rows->preparation);
  return absl::OkStatus();
}

std::vector<size_t> JoinedPairs::PlaceAxes(const SampleShape& shape) const {
  const std::vector<size_t>& x = first().x.shape();
  if (shape.IsSequence()) return x;
  if (x.size() < 3) return {};
  return {x[0], x[x.size() - 2], x.back()};
}

bool JoinedPairs::HasPlaces(const SampleShape& shape) const {
  return each_y() != 1 && first().y.has_whole_numbers() && first().y.shape() == PlaceAxes(shape);
}

std::string JoinedPairs::ToPlaces(const SampleShape& shape,
                                  const std::vector<double>& numbers) const {
  const std::vector<size_t> wanted = PlaceAxes(shape), &y = first().y.shape();
  const auto whole = [](double number) { return number == std::floor(number); };
  if (each_y() == 1 || wanted.empty() || !std::ranges::all_of(numbers, whole)) return "";
  const auto without = [&](size_t axis) {
    std::vector<size_t> axes = y;
    axes.erase(axes.begin() + static_cast<ptrdiff_t>(axis));
    return y[axis] == 1 && axes == wanted;
  };
  std::string index;
  if (y != wanted) {
    if (y.size() != wanted.size() + 1) return "";
    index = without(1) ? "[:, 0]" : without(y.size() - 1) ? "[..., 0]" : "";
    if (index.empty()) return "";
  }
  if (first().y.has_whole_numbers()) return absl::StrCat("y", index);
  const auto is_byte = [](double number) { return number >= 0 && number <= UINT8_MAX; };
  return absl::StrCat("y", index, ".astype('",
                      std::ranges::all_of(numbers, is_byte) ? "uint8" : "int64", "')");
}

std::string JoinedPairs::FromOneHot(const SampleShape& shape,
                                    const std::vector<double>& numbers) const {
  const std::vector<size_t>& y = first().y.shape();
  if (each_y() == 1) return "";
  const auto sums_to_one = [&](size_t axis) {
    size_t stride = 1;
    for (size_t a = axis + 1; a < y.size(); ++a) stride *= y[a];
    std::vector<int> ones(numbers.size() / y[axis]);
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i] != 0 && numbers[i] != 1) return false;
      ones[i / (stride * y[axis]) * stride + i % stride] += static_cast<int>(numbers[i]);
    }
    return std::ranges::all_of(ones, [](int count) { return count == 1; });
  };
  for (const size_t axis : {size_t{1}, y.size() - 1}) {
    if (y[axis] < 2) continue;
    std::vector<size_t> axes = y;
    axes.erase(axes.begin() + static_cast<ptrdiff_t>(axis));
    if ((axes.size() != 1 && axes != PlaceAxes(shape)) || !sums_to_one(axis)) continue;
    return axis == 1 ? "y.argmax(1)" : "y.argmax(-1)";
  }
  return "";
}

absl::Status JoinedPairs::ReadPlaces(const std::vector<double>& numbers, ArrayRows* rows) const {
  const size_t each = each_y();
  const bool pixels = !rows->shape.IsSequence();
  rows->places.reserve(numbers.size());
  int32_t most = -1;     // of the training samples
  bool ignored = false;  // whether they have such pixels
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] != std::floor(numbers[i])) {  // of a test of another type
      return InvalidArgumentError(Place(&ArrayPair::y_name, i / each), " has ", numbers[i],
                                  ", and classes are whole numbers: write y as the training's");
    }
    if (numbers[i] >= kMostNumberClasses) {
      return InvalidArgumentError(Place(&ArrayPair::y_name, i / each), " has the class ",
                                  numbers[i], "; classes are below ", kMostNumberClasses,
                                  ", and a number below 0 is not counted");
    }
    const auto label = static_cast<int32_t>(std::max(numbers[i], -1.0));
    const bool ignore = pixels && label == kIgnoredPixel;
    rows->places.push_back(ignore ? -1 : label);
    if (i < training_ * each) {
      most = std::max(most, rows->places.back());
      ignored |= ignore;
    } else if (rows->places.back() > most) {
      return InvalidArgumentError(Place(&ArrayPair::y_name, i / each), " has the class ", label,
                                  ", and those of the training samples end at ", most,
                                  "; mix the samples, or choose another test (data.table)");
    }
  }
  if (most < 1 && ignored) {
    return InvalidArgumentError(first().path, ": ", first().y_name,
                                " has 255, which is not counted, and no class from 1 to 254 in the "
                                "training samples; if 255 is the class 1, divide by 255: y // 255");
  }
  if (most < 0) {
    return InvalidArgumentError(first().path, ": ", first().y_name,
                                " has numbers below 0 alone in the training samples, which are not "
                                "counted; classes are numbered from 0 on");
  }
  if (most < 1) {
    return InvalidArgumentError(first().path, ": ", first().y_name,
                                " has no class above 0 in the training samples; classes are "
                                "numbered from 0 on, and are at least 2");
  }
  rows->shape.classes = most + 1;
  rows->shape.label_each_pixel = pixels;
  // Tokens are many, and a few samples need not have all of them.
  if (pixels) {
    rows->note = UnusedClassesNote(std::span(rows->places).first(training_ * each),
                                   [&](size_t i) { return Place(&ArrayPair::y_name, i / each); });
  }
  if (!pixels) rows->shape.source = 0;
  // A network may name the next token, and such networks have as many classes as tokens.
  if (!pixels) rows->shape.vocabulary = std::max(rows->shape.vocabulary, most + 1);
  return absl::OkStatus();
}

absl::Status JoinedPairs::ReadTargets(Targets::Kind kind, bool standardize, ArrayRows* rows) const {
  PSGD_ASSIGN_OR_RETURN(const std::vector<double> numbers,
                        ReadAll(&ArrayPair::y, &ArrayPair::y_name));
  if (kind == Targets::Kind::kNone) {
    return HasPlaces(rows->shape) ? ReadPlaces(numbers, rows) : ReadClasses(numbers, rows);
  }
  std::vector<std::string> names;
  for (size_t t = 0; t < each_y(); ++t) names.push_back(each_y() == 1 ? "y" : absl::StrCat("y", t));
  PSGD_ASSIGN_OR_RETURN(
      rows->targets,
      CheckedTargets(
          kind, std::move(names), numbers, training_,
          [this](size_t row) { return Place(&ArrayPair::y_name, row); }, standardize));
  rows->shape.classes = rows->targets.classes;
  rows->shape.targets = static_cast<int>(each_y());
  return absl::OkStatus();
}

absl::Status JoinedPairs::ReadTokens(ArrayRows* rows) const {
  PSGD_ASSIGN_OR_RETURN(const std::vector<double> numbers,
                        ReadAll(&ArrayPair::x, &ArrayPair::x_name));
  rows->tokens.reserve(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    const absl::StatusOr<int32_t> token = TokenOf(numbers[i]);
    if (!token.ok()) return Annotate(token.status(), Place(&ArrayPair::x_name, i / each_x()));
    rows->tokens.push_back(*token);
  }
  rows->shape.length = rows->shape.source = static_cast<int>(each_x());
  rows->shape.vocabulary = *std::ranges::max_element(rows->tokens) + 1;
  return absl::OkStatus();
}

// A plane is what shares a mean and a deviation: a column of a row, or a channel of an image.
absl::Status JoinedPairs::ReadNumbers(bool standardize, ArrayRows* rows) const {
  const std::vector<size_t>& axes = first().x.shape();
  rows->shape.channels = axes.size() == 4 ? static_cast<int>(axes[1]) : 1;
  rows->shape.height = axes.size() == 2 ? 1 : static_cast<int>(axes[axes.size() - 2]);
  rows->shape.width = static_cast<int>(axes.back());
  PSGD_ASSIGN_OR_RETURN(const std::vector<double> numbers,
                        ReadAll(&ArrayPair::x, &ArrayPair::x_name));
  const size_t planes = axes.size() == 2 ? each_x() : static_cast<size_t>(rows->shape.channels);
  const size_t plane = each_x() / planes;
  rows->values.resize(numbers.size());
  for (size_t p = 0; p < planes; ++p) {
    const auto at = [&](size_t i) { return i / plane * each_x() + p * plane + i % plane; };
    const auto measured = MeasureScale(training_ * plane, [&](size_t i) { return numbers[at(i)]; });
    const NumberScale scale = standardize ? measured.value_or(NumberScale()) : NumberScale();
    for (size_t i = 0; i < samples_ * plane; ++i) rows->values[at(i)] = scale.Of(numbers[at(i)]);
    *rows->preparation.add_planes() = RecordOf(scale);
  }
  return absl::OkStatus();
}

absl::StatusOr<ArrayRows> JoinedPairs::Finish(const ArraysOptions& options) const {
  ArrayRows rows;
  PSGD_RETURN_IF_ERROR(options.input == ArrayInput::TOKENS
                           ? ReadTokens(&rows)
                           : ReadNumbers(options.standardize, &rows));
  PSGD_RETURN_IF_ERROR(ReadTargets(KindOf(options.kind), options.standardize, &rows));
  return rows;
}

// Reads the new samples of x, checked for those of the run, number by number.
template <typename Value, typename Take>
absl::StatusOr<std::vector<Value>> ReadNew(const std::string& path, const SampleShape& shape,
                                           std::vector<size_t> wanted, Take take) {
  PSGD_ASSIGN_OR_RETURN(NpyArray x, ReadX(path));
  x.AddColumnAxis();
  const size_t each = shape.elements();
  std::vector<size_t> sides = x.shape();
  if (!sides.empty()) sides.erase(sides.begin());
  if (x.size() == 0 || x.size() / each > kMostSamples ||
      InnerSides(sides) != InnerSides(std::move(wanted))) {
    return InvalidArgumentError(path, ": x is ", AxesText(x),
                                ", but the run trained on samples of ", shape.ImageText(),
                                "; the first axis counts samples");
  }
  std::vector<Value> values;
  values.reserve(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    absl::StatusOr<Value> value = take(x.At(i), i % each);
    if (!value.ok()) return Annotate(value.status(), absl::StrCat(path, ": x[", i / each, "]"));
    values.push_back(*value);
  }
  return values;
}

}  // namespace

absl::StatusOr<std::vector<float>> LoadNewArray(const std::string& path, const SampleShape& shape,
                                                std::span<const NumberScale> scales) {
  const size_t plane = shape.elements() / scales.size();
  const auto side = [](int size) { return static_cast<size_t>(size); };
  return ReadNew<float>(path, shape, {side(shape.channels), side(shape.height), side(shape.width)},
                        [&](double number, size_t at) -> absl::StatusOr<float> {
                          if (std::abs(number) <= kLargestNumber) {
                            return scales[at / plane].Of(number);
                          }
                          return NotFinite(number);
                        });
}

absl::StatusOr<std::vector<int32_t>> LoadNewTokens(const std::string& path,
                                                   const SampleShape& shape) {
  return ReadNew<int32_t>(path, shape, {static_cast<size_t>(shape.length)},
                          [&](double number, size_t) -> absl::StatusOr<int32_t> {
                            PSGD_ASSIGN_OR_RETURN(const int32_t token, TokenOf(number));
                            if (token < shape.vocabulary) return token;
                            return InvalidArgumentError(
                                "token ", token, ": the run's data had none above ",
                                shape.vocabulary - 1,
                                ", so the network has not learned it; replace it, as by a token "
                                "that stands for unknown ones");
                          });
}

absl::StatusOr<TrainAndTest> LoadArrayPairs(std::vector<ArrayPair> pairs,
                                            const ArraysOptions& options) {
  size_t samples = 0;
  for (const ArrayPair& pair : pairs) {
    PSGD_RETURN_IF_ERROR(CheckAxes(pair, options.input));
    samples += pair.samples();
  }
  size_t training = pairs.front().samples();
  if (pairs.size() == 1) {
    PSGD_ASSIGN_OR_RETURN(training, TrainingRows(options.path, training, options.test_fraction));
  }
  const bool split = pairs.size() == 1;
  std::string note;
  if (IsChannelsLast(pairs.front().x)) {
    note = absl::StrCat(options.path, ": x is ", AxesText(pairs.front().x),
                        ", read as samples x channels x height x width; if its last axis is the "
                        "channels, make that the second: x.transpose(0, 3, 1, 2)");
  }
  const JoinedPairs joined(std::move(pairs), training);
  PSGD_RETURN_IF_ERROR(joined.CheckAlike());
  PSGD_ASSIGN_OR_RETURN(ArrayRows all, joined.Finish(options));
  auto rows = std::make_shared<const ArrayRows>(std::move(all));
  AddNote(TargetsNote(options.path, rows->targets, training, split), &note);
  AddNote(rows->note, &note);
  return TrainAndTest{ArraySamples(rows, 0, training), ArraySamples(rows, training, samples),
                      rows->targets.targets, rows->preparation, std::move(note)};
}

absl::StatusOr<TrainAndTest> LoadArrays(const ArraysOptions& options) {
  std::vector<ArrayPair> pairs;
  for (const std::string& path : {options.path, options.test}) {
    if (path.empty()) continue;
    PSGD_ASSIGN_OR_RETURN(ArrayPair pair, ReadPair(path));
    pairs.push_back(std::move(pair));
  }
  return LoadArrayPairs(std::move(pairs), options);
}

}  // namespace psgd
