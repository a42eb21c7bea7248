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
#include "data/picture_reader.h"
#include "data/preparation.h"
#include "data/range_file.h"
#include "data/read_user_data.h"
#include "data/table_rows.h"
#include "data/text_files.h"
#include "data/token_rows.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;

absl::Status BadRecord() {
  return absl::InternalError(
      "the checkpoint's preparation record does not fit its network; is the checkpoint damaged?");
}

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

// Samples without answers, whose inputs `fill(index, sample)` fills in.
template <typename Fill>
NewSamples SamplesOf(size_t size, const SampleShape& shape, Fill fill,
                     std::vector<std::string> files = {}) {
  auto rows = std::make_shared<ReadDataset>(
      size, shape, [fill = std::move(fill)](const SampleKey& key, const Sample& sample) {
        fill(key.index, sample);
        std::ranges::fill(sample.labels, 0);
        std::ranges::fill(sample.targets, 0.0f);
        return absl::OkStatus();
      });
  return {std::make_shared<SampleSource>(std::move(rows)), std::move(files), {}};
}

// Samples of arrays in memory, one after another. `part`: of a sample, where its values go.
template <typename Value>
NewSamples ArraysOf(std::vector<Value> values, std::span<Value> Sample::*part,
                    const SampleShape& shape) {
  const size_t each = shape.elements(), size = values.size() / each;
  return SamplesOf(size, shape,
                   [values = std::move(values), part, each](size_t index, const Sample& sample) {
                     std::copy_n(values.begin() + static_cast<ptrdiff_t>(index * each), each,
                                 (sample.*part).begin());
                   });
}

// Codes the fields of one input column.
class ColumnCoder {
 public:
  // `standardize`: whether a missing number is the mean, 0.
  ColumnCoder(const Preparation::Column& column, bool standardize)
      : name_(column.name()), scale_(ScaleOf(column.scale())), standardize_(standardize) {
    if (column.values().empty()) return;
    code_ = {.category = true,
             .width = static_cast<size_t>(column.values_size()) + (column.missing() ? 1 : 0)};
    others_ = column.missing() ? static_cast<float>(column.values_size()) : -1.0f;
    for (const std::string& value : column.values()) {
      cells_.emplace(value, static_cast<float>(cells_.size()));
    }
  }

  const ColumnCode& code() const { return code_; }

  absl::StatusOr<float> Cell(absl::string_view field) {
    ++fields_;
    if (code_.category ? IsMissing(field) : IsMissingNumber(field)) {
      if (code_.category || standardize_) return others_;
      return InvalidArgumentError("column \"", name_,
                                  "\": the number is missing, and the run's data.standardize is "
                                  "false, so that no mean stands for it; fill it in");
    }
    if (code_.category) return CellOfValue(field);
    const absl::StatusOr<double> value = ParseNumber(field);
    if (value.ok()) return scale_.Of(*value);
    return InvalidArgumentError("column \"", name_, "\": ", value.status().message(),
                                ", and the run trained on numbers here");
  }

  // For people, if fields have values that no training row has. Else empty.
  std::string Note() const {
    if (unknown_ == 0) return "";
    return absl::StrCat("column \"", name_, "\": ", unknown_, " of ", fields_,
                        " fields have a value that no training row has, as \"", first_unknown_,
                        "\"; they count as missing");
  }

 private:
  float CellOfValue(absl::string_view field) {
    const auto known = cells_.find(std::string(field));
    if (known != cells_.end()) return known->second;
    constexpr size_t kMostQuoted = 40;
    if (unknown_++ == 0) first_unknown_ = std::string(field.substr(0, kMostQuoted));
    return others_;
  }

  const std::string name_;
  const NumberScale scale_;  // of a number
  const bool standardize_;
  ColumnCode code_;
  std::unordered_map<std::string, float> cells_;  // of a category
  float others_ = 0;                              // the cell of missing and unknown values
  size_t fields_ = 0, unknown_ = 0;
  std::string first_unknown_;
};

absl::StatusOr<NewSamples> OpenTable(const DataConfig& config, const Preparation& preparation,
                                     const std::string& path) {
  const SampleShape shape = ShapeOf(preparation);
  std::vector<ColumnCoder> coders;
  CodedRows rows;
  for (const Preparation::Column& column : preparation.columns()) {
    rows.columns.push_back(coders.emplace_back(column, config.standardize()).code());
  }
  if (rows.columns.empty() || rows.width() != shape.elements()) return BadRecord();
  std::vector<size_t> places;
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
        for (size_t i = 0; i < coders.size(); ++i) {
          PSGD_ASSIGN_OR_RETURN(const float cell, coders[i].Cell(fields[places[i]]));
          rows.cells.push_back(cell);
        }
        if (rows.cells.size() / coders.size() <= kMostSamples) return absl::OkStatus();
        return absl::InvalidArgumentError("more than 2^30 rows; use a part of the file");
      }));
  const size_t size = rows.cells.size() / rows.columns.size();
  NewSamples opened =
      SamplesOf(size, shape, [rows = std::move(rows)](size_t index, const Sample& sample) {
        rows.FillInputs(index, sample.values.data());
      });
  for (const ColumnCoder& coder : coders) {
    if (std::string note = coder.Note(); !note.empty()) opened.notes.push_back(std::move(note));
  }
  return opened;
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
    if (name.starts_with('.')) {
      it.disable_recursion_pending();
      continue;
    }
    std::error_code unknown;
    const bool file = it->is_regular_file(unknown);
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
        if (absl::StripAsciiWhitespace(fields[place]).empty()) {
          return InvalidArgumentError("column \"", column,
                                      "\": the field is empty; leave the row out");
        }
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
    if (absl::EndsWith(path, ".csv") || absl::EndsWith(path, ".tsv")) {
      return InvalidArgumentError(path,
                                  " is a table, but the run trained on files, each with one text: "
                                  "write each text to a file of its own, and name their folder");
    }
    PSGD_ASSIGN_OR_RETURN(files, FilesOf(path, {}));
    for (const std::string& file : files) {
      PSGD_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(file, kMostTextBytes));
      take(text);
    }
  }
  const size_t size = rows.size();
  return SamplesOf(
      size, shape,
      [rows = std::move(rows)](size_t index, const Sample& sample) {
        rows.Read(index, sample.tokens);
      },
      std::move(files));
}

absl::StatusOr<NewSamples> OpenPictures(const DataConfig& config, const Preparation& preparation,
                                        const std::string& path) {
  const SampleShape shape = ShapeOf(preparation);
  PSGD_ASSIGN_OR_RETURN(const std::vector<std::string> files,
                        FilesOf(path, {".jpg", ".jpeg", ".png"}));
  PSGD_ASSIGN_OR_RETURN(const Normalization normalization, PictureNormalization(config));
  if (shape.channels != ChannelsOf(config.images()) || shape.height != shape.width ||
      shape.width != config.images().size()) {
    return BadRecord();
  }
  Transforms transforms;
  transforms.push_back(std::make_unique<Normalize>(shape, normalization));
  auto images = MakeImageDataset(std::make_shared<ImageFiles>(files), shape,
                                 Viewer::Centred(config.images()));
  return NewSamples{
      std::make_shared<SampleSource>(std::move(images), std::move(transforms)), files, {}};
}

absl::StatusOr<NewSamples> OpenArrays(const Preparation& preparation, const std::string& path) {
  const SampleShape shape = ShapeOf(preparation);
  if (shape.IsSequence()) {
    PSGD_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, LoadNewTokens(path, shape));
    return ArraysOf(std::move(tokens), &Sample::tokens, shape);
  }
  std::vector<NumberScale> scales;
  for (const Preparation::Scale& plane : preparation.planes()) scales.push_back(ScaleOf(plane));
  if (shape.elements() == 0 || scales.empty() || shape.elements() % scales.size() != 0) {
    return BadRecord();
  }
  PSGD_ASSIGN_OR_RETURN(std::vector<float> values, LoadNewArray(path, shape, scales));
  return ArraysOf(std::move(values), &Sample::values, shape);
}

// REQUIRES: the format is one of those.
absl::StatusOr<NewSamples> Open(const DataConfig& config, const Preparation& preparation,
                                const std::string& path) {
  const Preparation::Shape& shape = preparation.shape();
  const int targets = preparation.targets_size();
  if (shape.targets() != targets || (targets > 0 && targets != shape.classes()) ||
      shape.classes() < 1 || preparation.classes_size() > shape.classes()) {
    return BadRecord();
  }
  switch (config.format()) {
    case DataConfig::TABLE:
      return OpenTable(config, preparation, path);
    case DataConfig::ARRAYS:
      return OpenArrays(preparation, path);
    case DataConfig::TEXT_CLASSES:
      return OpenTexts(preparation, path);
    default:
      return OpenPictures(config, preparation, path);
  }
}

}  // namespace

absl::Status CheckPredictable(DataConfig::Format format, const Preparation& preparation) {
  if (format != DataConfig::TABLE && format != DataConfig::ARRAYS &&
      format != DataConfig::TEXT_CLASSES && format != DataConfig::IMAGES) {
    return InvalidArgumentError(
        "predictions are for runs on data.format table, arrays, "
        "text_classes or images, and this one trained on ",
        absl::AsciiStrToLower(DataConfig::Format_Name(format)),
        "; export the network instead: ps-ctl export --onnx FILE");
  }
  if (!preparation.has_shape()) {
    return FailedPreconditionError(
        "the checkpoint keeps no record of its data's scales and names, because an earlier version "
        "of psgd took it; train on with this version, which makes the record, as for an epoch more "
        "(ps-run --resume RUN_DIR --set train.epochs=NUMBER), or train anew");
  }
  if (preparation.too_large()) return FailedPreconditionError(TooLargeText());
  if (format == DataConfig::ARRAYS && preparation.classes_size() == 0 &&
      preparation.targets_size() == 0) {
    return absl::InvalidArgumentError(
        "predictions are for samples with one class, or with targets, and this run trained on a "
        "class for each token or pixel; export the network instead: ps-ctl export --onnx FILE");
  }
  return absl::OkStatus();
}

absl::StatusOr<NewSamples> OpenNewSamples(const DataConfig& config, const Preparation& preparation,
                                          const std::string& path) {
  PSGD_RETURN_IF_ERROR(CheckPredictable(config.format(), preparation));
  NewSamples opened;
  PSGD_RETURN_IF_ERROR(ReadUserData([&]() -> absl::Status {
    PSGD_ASSIGN_OR_RETURN(opened, Open(config, preparation, path));
    return absl::OkStatus();
  }));
  return opened;
}

}  // namespace psgd
