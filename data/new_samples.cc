#include "data/new_samples.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "data/arrays.h"
#include "data/byte_pairs.h"
#include "data/column_code.h"
#include "data/column_reader.h"
#include "data/encoded_images.h"
#include "data/images.h"
#include "data/open_formats.h"
#include "data/preparation.h"
#include "data/range_file.h"
#include "data/table_rows.h"
#include "data/text_files.h"
#include "data/token_rows.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;

absl::Status BadRecord() {
  return absl::DataLossError(
      "the run's record of its data does not fit its network; is its checkpoint damaged?");
}

void LeaveOutAnswers(const Sample& sample) {
  std::ranges::fill(sample.labels, 0);
  std::ranges::fill(sample.targets, 0.0f);
}

// Rows of numbers in memory. Thread-safe: immutable.
class NumberRows final : public Dataset {
 public:
  NumberRows(std::vector<float> values, const SampleShape& shape)
      : values_(std::move(values)), shape_(shape) {}

  size_t size() const override { return values_.size() / shape_.elements(); }
  SampleShape shape() const override { return shape_; }
  absl::Status Read(const SampleKey& key, const Sample& sample) const override {
    std::copy_n(values_.begin() + static_cast<ptrdiff_t>(key.index * shape_.elements()),
                shape_.elements(), sample.values.begin());
    LeaveOutAnswers(sample);
    return absl::OkStatus();
  }

 private:
  const std::vector<float> values_;
  const SampleShape shape_;
};

// Texts in memory. Thread-safe: immutable.
class NewTexts final : public Dataset {
 public:
  NewTexts(TokenRows rows, const SampleShape& shape) : rows_(std::move(rows)), shape_(shape) {}

  size_t size() const override { return rows_.size(); }
  SampleShape shape() const override { return shape_; }
  absl::Status Read(const SampleKey& key, const Sample& sample) const override {
    const std::span<const Token> tokens = rows_.Row(key.index);
    std::ranges::fill(sample.tokens, kPaddingToken);
    std::copy(tokens.begin(), tokens.end(), sample.tokens.begin());
    LeaveOutAnswers(sample);
    return absl::OkStatus();
  }

 private:
  const TokenRows rows_;
  const SampleShape shape_;
};

// Image files. Thread-safe: immutable.
class ImageFiles final : public EncodedImages {
 public:
  explicit ImageFiles(std::vector<std::string> files) : files_(std::move(files)) {}

  size_t size() const override { return files_.size(); }
  int32_t label(size_t) const override { return 0; }
  void ReadTargets(size_t, std::span<float> targets) const override {
    std::ranges::fill(targets, 0.0f);
  }
  absl::StatusOr<std::vector<uint8_t>> Read(size_t index) const override {
    return ReadWholeFile(files_[index], kMostEncodedBytes);
  }
  std::string Name(size_t index) const override { return files_[index]; }

 private:
  const std::vector<std::string> files_;
};

NewSamples RowsOf(std::shared_ptr<const Dataset> rows, std::vector<std::string> files = {}) {
  return {std::make_shared<SampleSource>(std::move(rows)), std::move(files)};
}

// The cells of one input column.
class ColumnCoder {
 public:
  explicit ColumnCoder(const Preparation::Column& column)
      : number_(column.values().empty()), scale_(ScaleOf(column.scale())) {
    if (number_) return;
    code_ = {.category = true,
             .width = static_cast<size_t>(column.values_size()) + (column.missing() ? 1 : 0)};
    others_ = column.missing() ? static_cast<float>(column.values_size()) : -1.0f;
    for (const std::string& value : column.values()) {
      cells_.emplace(value, static_cast<float>(cells_.size()));
    }
  }

  size_t width() const { return code_.width; }

  absl::Status Fill(absl::string_view field, float* inputs) const {
    float cell = number_ ? 0 : others_;
    if (!IsMissing(field) && number_) {
      const absl::StatusOr<double> value = ParseNumber(field);
      if (!value.ok()) {
        return InvalidArgumentError(value.status().message(),
                                    ", and the run trained on numbers here");
      }
      cell = scale_.Of(*value);
    } else if (!IsMissing(field)) {
      const auto known = cells_.find(std::string(field));
      if (known != cells_.end()) cell = known->second;
    }
    code_.FillInputs(cell, inputs);
    return absl::OkStatus();
  }

 private:
  const bool number_;
  const NumberScale scale_;  // of a number
  ColumnCode code_;
  std::unordered_map<std::string, float> cells_;  // of a category
  float others_ = -1;                             // the cell of missing and unknown values
};

absl::StatusOr<NewSamples> OpenTable(const Preparation& preparation, const std::string& path) {
  const SampleShape shape = ShapeOf(preparation);
  std::vector<ColumnCoder> coders;
  size_t width = 0;
  for (const Preparation::Column& column : preparation.columns()) {
    width += coders.emplace_back(column).width();
  }
  if (width == 0 || width != shape.elements()) return BadRecord();
  std::vector<size_t> places;
  std::vector<float> values;
  PSGD_RETURN_IF_ERROR(ForEachRow(
      path,
      [&](const ColumnNames& names) {
        for (const Preparation::Column& column : preparation.columns()) {
          PSGD_ASSIGN_OR_RETURN(places.emplace_back(),
                                PlaceOf("the run's training table", column.name(), names));
        }
        return absl::OkStatus();
      },
      [&](const std::vector<std::string>& fields, size_t) {
        values.resize(values.size() + width);
        float* inputs = values.data() + values.size() - width;
        for (size_t i = 0; i < coders.size(); ++i) {
          const absl::Status filled = coders[i].Fill(fields[places[i]], inputs);
          const Preparation::Column& column = preparation.columns(static_cast<int>(i));
          if (!filled.ok()) {
            return Annotate(filled, absl::StrCat("column \"", column.name(), "\""));
          }
          inputs += coders[i].width();
        }
        if (values.size() / width <= kMostSamples) return absl::OkStatus();
        return absl::InvalidArgumentError("more than 2^30 rows; use a part of the file");
      }));
  return RowsOf(std::make_shared<NumberRows>(std::move(values), shape));
}

// The files of `path`, which is one file or a folder, sorted. `endings`: lower-case; none: all.
absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& path,
                                                 const std::vector<absl::string_view>& endings) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return std::vector<std::string>{path};
  if (!fs::is_directory(path, error)) return NotFoundError(path, ": no such file or folder");
  std::vector<std::string> files;
  fs::recursive_directory_iterator it(path, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    const std::string name = absl::AsciiStrToLower(it->path().filename().string());
    const auto ends = [&](absl::string_view ending) { return absl::EndsWith(name, ending); };
    std::error_code unknown;
    const bool file = it->is_regular_file(unknown) && name[0] != '.';
    if (file && (endings.empty() || std::ranges::any_of(endings, ends))) {
      files.push_back(it->path().string());
    }
  }
  if (error) return InvalidArgumentError(path, ": ", error.message());
  if (files.empty()) {
    return InvalidArgumentError(path, ": holds no ", endings.empty() ? "" : ".jpg, .jpeg or .png ",
                                "file");
  }
  std::ranges::sort(files);
  return files;
}

absl::Status ReadTexts(const std::string& path, const std::string& column,
                       const std::function<void(absl::string_view)>& take) {
  size_t place = 0;
  return ForEachRow(
      path,
      [&](const ColumnNames& names) {
        PSGD_ASSIGN_OR_RETURN(place, PlaceOf("the run's training table", column, names));
        return absl::OkStatus();
      },
      [&](const std::vector<std::string>& fields, size_t) {
        take(fields[place]);
        return absl::OkStatus();
      });
}

absl::StatusOr<NewSamples> OpenTexts(const Preparation& preparation, const std::string& path) {
  const SampleShape shape = ShapeOf(preparation);
  PSGD_ASSIGN_OR_RETURN(BytePairs encoder,
                        BytePairs::FromMerges({preparation.merges().data(),
                                               static_cast<size_t>(preparation.merges_size())}));
  if (shape.length < 1 || VocabularyOf(encoder) != shape.vocabulary) return BadRecord();
  TokenRows rows;
  const auto take = [&](absl::string_view text) { rows.Add(text, shape.length, &encoder); };
  std::vector<std::string> files;
  if (!preparation.text_column().empty()) {
    PSGD_RETURN_IF_ERROR(ReadTexts(path, preparation.text_column(), take));
  } else {
    PSGD_ASSIGN_OR_RETURN(files, FilesOf(path, {}));
    for (const std::string& file : files) {
      PSGD_ASSIGN_OR_RETURN(const auto opened, TextFiles::Open({file}, kMostTextBytes));
      std::string text(opened->size(), '\0');
      PSGD_RETURN_IF_ERROR(opened->Read(0, {reinterpret_cast<uint8_t*>(text.data()), text.size()}));
      take(text);
    }
  }
  return RowsOf(std::make_shared<NewTexts>(std::move(rows), shape), std::move(files));
}

absl::StatusOr<NewSamples> OpenPictures(const DataConfig& config, const Preparation& preparation,
                                        const std::string& path) {
  const SampleShape shape = ShapeOf(preparation);
  PSGD_ASSIGN_OR_RETURN(const std::vector<std::string> files,
                        FilesOf(path, {".jpg", ".jpeg", ".png"}));
  PSGD_ASSIGN_OR_RETURN(const Normalization normalization, PictureNormalization(config));
  if (shape.channels != 3 || shape.height != shape.width || shape.width != config.images().size()) {
    return BadRecord();
  }
  Transforms transforms;
  transforms.push_back(std::make_unique<Normalize>(shape, normalization));
  auto images = MakeImageDataset(std::make_shared<ImageFiles>(files), shape,
                                 Viewer::Centred(config.images()));
  return NewSamples{std::make_shared<SampleSource>(std::move(images), std::move(transforms)),
                    files};
}

absl::StatusOr<NewSamples> OpenArrays(const Preparation& preparation, const std::string& path) {
  const SampleShape shape = ShapeOf(preparation);
  std::vector<NumberScale> scales;
  for (const Preparation::Scale& plane : preparation.planes()) scales.push_back(ScaleOf(plane));
  if (shape.elements() == 0 || scales.empty() || shape.elements() % scales.size() != 0) {
    return BadRecord();
  }
  PSGD_ASSIGN_OR_RETURN(std::vector<float> values, LoadNewArray(path, shape, scales));
  return RowsOf(std::make_shared<NumberRows>(std::move(values), shape));
}

}  // namespace

absl::StatusOr<NewSamples> OpenNewSamples(const DataConfig& config, const Preparation& preparation,
                                          const std::string& path) {
  const std::string format = absl::AsciiStrToLower(DataConfig::Format_Name(config.format()));
  if (config.format() != DataConfig::TABLE && config.format() != DataConfig::ARRAYS &&
      config.format() != DataConfig::TEXT_CLASSES && config.format() != DataConfig::IMAGES) {
    return InvalidArgumentError(
        "predictions are for runs on data.format table, arrays, "
        "text_classes or images, and this one trained on ",
        format, "; export the network instead: ps-ctl export --onnx FILE");
  }
  if (!preparation.has_shape()) {
    return FailedPreconditionError(
        "the run keeps no record of its data's scales and names, because an earlier version of "
        "psgd trained it, or because the names take more than 2 MiB; train it again with this "
        "version, or with fewer categories (data.columns)");
  }
  const Preparation::Shape& shape = preparation.shape();
  const bool has_targets = shape.targets() == preparation.targets_size();
  if (!has_targets || shape.classes() < 1 || preparation.classes_size() > shape.classes()) {
    return BadRecord();
  }
  switch (config.format()) {
    case DataConfig::TABLE:
      return OpenTable(preparation, path);
    case DataConfig::ARRAYS:
      return OpenArrays(preparation, path);
    case DataConfig::TEXT_CLASSES:
      return OpenTexts(preparation, path);
    default:
      return OpenPictures(config, preparation, path);
  }
}

}  // namespace psgd
