#include "data/open_formats.h"

#include <algorithm>
#include <utility>

#include "data/arrays.h"
#include "data/byte_pairs.h"
#include "data/cifar.h"
#include "data/idx.h"
#include "data/picture_reader.h"
#include "data/ratings.h"
#include "data/segmentation.h"
#include "data/sparse_table.h"
#include "data/synthetic.h"
#include "data/table.h"
#include "data/text.h"
#include "data/text_classes.h"
#include "data/translation.h"

namespace psgd {
namespace {

absl::Status CheckPath(const DataConfig& config, const char* use) {
  if (!config.path().empty()) return absl::OkStatus();
  return InvalidArgumentError("data.path is not set, and ", use);
}

absl::StatusOr<TrainAndTest> OpenIdx(const DataConfig& config) {
  PSGD_RETURN_IF_ERROR(
      CheckPath(config,
                "format idx reads its files from there; set it to their folder, as "
                "/usr/share/datasets/fashion-mnist, or set data.format to synthetic"));
  return LoadIdx(config.path(), config.target_kind());
}

absl::StatusOr<SampleShape> SyntheticShape(const SyntheticConfig& config) {
  SampleShape shape{1, 28, 28, config.classes()};
  if (config.shape().empty()) return shape;
  if (config.shape_size() != 3) {
    return InvalidArgumentError("data.synthetic.shape has ", config.shape_size(),
                                " values; write channels, height and width, as [1, 28, 28]");
  }
  constexpr int64_t kLargestSide = 1 << 20;  // keeps the product within 64 bits
  for (const int64_t side : config.shape()) {
    if (side < 1 || side > kLargestSide) {
      return InvalidArgumentError("data.synthetic.shape contains ", side, "; it must be from 1 to ",
                                  kLargestSide);
    }
  }
  shape.channels = static_cast<int>(config.shape(0));
  shape.height = static_cast<int>(config.shape(1));
  shape.width = static_cast<int>(config.shape(2));
  return shape;
}

absl::StatusOr<TrainAndTest> OpenSynthetic(const SyntheticConfig& config, uint64_t seed) {
  if (std::max(config.train_samples(), config.test_samples()) > int64_t{kMostSamples}) {
    return InvalidArgumentError("data.synthetic asks for more than ", kMostSamples,
                                " samples; use fewer");
  }
  SyntheticOptions options;
  PSGD_ASSIGN_OR_RETURN(options.shape, SyntheticShape(config));
  options.noise = config.noise();
  options.seed = seed;
  TrainAndTest sets;
  options.samples = static_cast<size_t>(config.train_samples());
  PSGD_ASSIGN_OR_RETURN(sets.train, SyntheticDataset::Create(options));
  options.samples = static_cast<size_t>(config.test_samples());
  options.test = true;
  PSGD_ASSIGN_OR_RETURN(sets.test, SyntheticDataset::Create(options));
  return sets;
}

constexpr int kMostSide = 4096;
constexpr int kMostRatio = 16;

// The config may come from another process, where nobody checked its ranges.
absl::Status CheckImages(const DataConfig& config) {
  const ImagesConfig& images = config.images();
  const AugmentConfig& augment = config.augment();
  if (images.size() < 1 || images.size() > kMostSide ||
      (images.resize() != 0 && images.resize() < images.size())) {
    return InvalidArgumentError("data.images.size is ", images.size(), " and data.images.resize ",
                                images.resize(), "; the size must be from 1 to ", kMostSide,
                                ", and resize at least the size, or 0");
  }
  if (!(augment.crop_area() > 0 && augment.crop_area() <= 1) ||
      !(augment.crop_ratio() >= 1 && augment.crop_ratio() <= kMostRatio)) {
    return InvalidArgumentError("data.augment.crop_area is ", augment.crop_area(),
                                " and crop_ratio ", augment.crop_ratio(),
                                "; they must be above 0 and up to 1, and from 1 to ", kMostRatio);
  }
  if (config.format() == DataConfig::SEGMENTATION &&
      (images.classes() < 2 || augment.crop_padding() > 0)) {
    return absl::InvalidArgumentError(
        "format segmentation needs data.images.classes of at least 2, and cuts with "
        "data.augment.resized_crop, not crop_padding");
  }
  return absl::OkStatus();
}

absl::StatusOr<TrainAndTest> OpenPictures(const DataConfig& config, uint64_t seed) {
  PSGD_RETURN_IF_ERROR(CheckImages(config));
  return config.format() == DataConfig::SEGMENTATION ? OpenSegmentation(config, seed)
                                                     : OpenImages(config, seed);
}

absl::Status CheckFraction(absl::string_view key, double fraction) {
  if (fraction > 0 && fraction < 1) return absl::OkStatus();
  return InvalidArgumentError("data.", key, " is ", fraction, "; it must be between 0 and 1");
}

// Returns 0 for bytes.
absl::StatusOr<int> Vocabulary(const DataConfig& config) {
  if (config.tokens() == DataConfig::BYTES) return 0;
  constexpr int kMost = 65536;  // 16 bits
  if (config.vocabulary() >= kLeastVocabulary && config.vocabulary() <= kMost)
    return config.vocabulary();
  return InvalidArgumentError("data.vocabulary is ", config.vocabulary(), "; it must be from ",
                              kLeastVocabulary, " to ", kMost);
}

absl::StatusOr<TrainAndTest> OpenSequences(const DataConfig& config) {
  PSGD_RETURN_IF_ERROR(CheckPath(
      config, "formats of text read from there; set it to a file, or to a folder of files"));
  const bool text = config.format() == DataConfig::TEXT;
  const bool classes = config.format() == DataConfig::TEXT_CLASSES;
  PSGD_RETURN_IF_ERROR(
      text      ? CheckFraction("text.test_fraction", config.text().test_fraction())
      : classes ? CheckFraction("table.test_fraction", config.table().test_fraction())
                : CheckFraction("translation.test_fraction", config.translation().test_fraction()));
  PSGD_ASSIGN_OR_RETURN(const int vocabulary, Vocabulary(config));
  if (text) return LoadText(config, vocabulary);
  return classes ? LoadTextClasses(config, vocabulary) : LoadTranslation(config, vocabulary);
}

absl::StatusOr<TrainAndTest> OpenSparse(const DataConfig& config, uint64_t seed) {
  PSGD_RETURN_IF_ERROR(
      CheckPath(config, "this format reads from there; set it to the file of the samples"));
  if (config.format() == DataConfig::RATINGS) {
    const RatingsConfig& ratings = config.ratings();
    for (const auto& [key, count] : {std::pair{"negatives", ratings.negatives()},
                                     std::pair{"test_negatives", ratings.test_negatives()}}) {
      if (count >= 1) continue;
      return InvalidArgumentError("data.ratings.", key, " is ", count, "; it must be at least 1");
    }
    return LoadRatings(config, seed);
  }
  SparseTableOptions options;
  options.path = config.path();
  options.test = config.table().test();
  options.test_fraction = config.table().test_fraction();
  options.criteo = config.format() == DataConfig::CRITEO;
  options.features = config.table().features();
  options.kind = config.target_kind();
  PSGD_RETURN_IF_ERROR(CheckFraction("table.test_fraction", options.test_fraction));
  return LoadSparseTable(options);
}

absl::StatusOr<TrainAndTest> OpenRows(const DataConfig& config) {
  PSGD_RETURN_IF_ERROR(
      CheckPath(config, "this format reads from there; set it to the file of the rows"));
  PSGD_RETURN_IF_ERROR(CheckFraction("table.test_fraction", config.table().test_fraction()));
  if (config.format() == DataConfig::ARRAYS) {
    return LoadArrays({.path = config.path(),
                       .test = config.table().test(),
                       .test_fraction = config.table().test_fraction(),
                       .kind = config.target_kind(),
                       .input = config.input(),
                       .standardize = config.standardize()});
  }
  TableOptions options;
  options.path = config.path();
  options.test = config.table().test();
  options.test_fraction = config.table().test_fraction();
  options.target.assign(config.target().begin(), config.target().end());
  options.columns.assign(config.columns().begin(), config.columns().end());
  options.categories.assign(config.categories().begin(), config.categories().end());
  options.kind = config.target_kind();
  options.standardize = config.standardize();
  return LoadTable(options);
}

}  // namespace

bool IsSequenceFormat(DataConfig::Format format) {
  return format == DataConfig::TEXT || format == DataConfig::TRANSLATION ||
         format == DataConfig::TEXT_CLASSES;
}

bool IsSparseFormat(DataConfig::Format format) {
  return format == DataConfig::LIBSVM || format == DataConfig::CRITEO ||
         format == DataConfig::RATINGS;
}

bool IsRowFormat(DataConfig::Format format) {
  return format == DataConfig::TABLE || format == DataConfig::ARRAYS;
}

bool IsPictureFormat(DataConfig::Format format) {
  return format == DataConfig::IMAGES || format == DataConfig::SEGMENTATION;
}

absl::StatusOr<TrainAndTest> OpenFormat(const DataConfig& config, uint64_t seed) {
  if (IsSequenceFormat(config.format())) return OpenSequences(config);
  if (IsSparseFormat(config.format())) return OpenSparse(config, seed);
  if (IsPictureFormat(config.format())) return OpenPictures(config, seed);
  if (IsRowFormat(config.format())) return OpenRows(config);
  switch (config.format()) {
    case DataConfig::SYNTHETIC:
      return OpenSynthetic(config.synthetic(), seed);
    case DataConfig::CIFAR10:
      return LoadCifar(CifarKind::kCifar10, config.path());
    case DataConfig::CIFAR100:
      return LoadCifar(CifarKind::kCifar100, config.path());
    default:
      return OpenIdx(config);
  }
}

absl::StatusOr<Normalization> PictureNormalization(const DataConfig& config) {
  const int channels = ChannelsOf(config.images());
  if (config.mean().empty() && config.stddev().empty()) {
    if (channels == 1) return Normalization{{0.459f}, {0.226f}};  // of grey, by the same weights
    return Normalization{{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};
  }
  return GivenNormalization(config, channels);
}

}  // namespace psgd
