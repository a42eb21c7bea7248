#include "data/open_data.h"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/cifar.h"
#include "data/color_jitter.h"
#include "data/idx.h"
#include "data/open_pictures.h"
#include "data/open_sequences.h"
#include "data/open_sparse.h"
#include "data/prefix.h"
#include "data/synthetic.h"

namespace psgd {
namespace {

// Sample indices travel as u32, and an epoch's order holds one for each sample.
constexpr int64_t kMostSamples = int64_t{1} << 30;

struct RawSets {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;
};

absl::StatusOr<RawSets> OpenIdx(const DataConfig& config) {
  if (config.path().empty()) {
    return absl::InvalidArgumentError(
        "data.path is not set, and format idx reads its files from there; set it to their folder, "
        "as /usr/share/datasets/fashion-mnist, or set data.format to synthetic");
  }
  PSGD_ASSIGN_OR_RETURN(IdxSets sets, LoadIdx(config.path()));
  return RawSets{std::move(sets.train), std::move(sets.test)};
}

absl::StatusOr<RawSets> OpenCifar(const DataConfig& config) {
  const bool ten = config.format() == DataConfig::CIFAR10;
  PSGD_ASSIGN_OR_RETURN(CifarSets sets,
                        LoadCifar(ten ? CifarKind::kCifar10 : CifarKind::kCifar100, config.path()));
  return RawSets{std::move(sets.train), std::move(sets.test)};
}

absl::StatusOr<SampleShape> SyntheticShape(const SyntheticConfig& config) {
  SampleShape shape{1, 28, 28, config.classes()};
  if (config.shape().empty()) return shape;
  if (config.shape_size() != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.synthetic.shape has ", config.shape_size(),
                     " values; write channels, height and width, as [1, 28, 28]"));
  }
  constexpr int64_t kLargestSide = 1 << 20;  // keeps the product within 64 bits
  for (const int64_t side : config.shape()) {
    if (side < 1 || side > kLargestSide) {
      return absl::InvalidArgumentError(absl::StrCat("data.synthetic.shape contains ", side,
                                                     "; it must be from 1 to ", kLargestSide));
    }
  }
  shape.channels = static_cast<int>(config.shape(0));
  shape.height = static_cast<int>(config.shape(1));
  shape.width = static_cast<int>(config.shape(2));
  return shape;
}

absl::StatusOr<RawSets> OpenSynthetic(const SyntheticConfig& config, uint64_t seed) {
  if (std::max(config.train_samples(), config.test_samples()) > kMostSamples) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.synthetic asks for more than ", kMostSamples, " samples; use fewer"));
  }
  SyntheticOptions options;
  PSGD_ASSIGN_OR_RETURN(options.shape, SyntheticShape(config));
  options.noise = config.noise();
  options.seed = seed;
  RawSets sets;
  options.samples = static_cast<size_t>(config.train_samples());
  PSGD_ASSIGN_OR_RETURN(sets.train, SyntheticDataset::Create(options));
  options.samples = static_cast<size_t>(config.test_samples());
  options.test = true;
  PSGD_ASSIGN_OR_RETURN(sets.test, SyntheticDataset::Create(options));
  return sets;
}

// `Prefix` is the class of the first samples of a Set.
template <typename Prefix, typename Set>
absl::Status Limit(absl::string_view key, int64_t limit, std::shared_ptr<const Set>* set) {
  if (limit == 0) return absl::OkStatus();
  if (static_cast<uint64_t>(limit) > (*set)->size()) {
    return absl::InvalidArgumentError(absl::StrCat("data.", key, " is ", limit, ", but there are ",
                                                   (*set)->size(),
                                                   " samples; lower it, or set it to 0 for all"));
  }
  *set = std::make_shared<Prefix>(std::move(*set), static_cast<size_t>(limit));
  return absl::OkStatus();
}

// The config may come from another process, where nobody checked its ranges.
absl::Status CheckCounts(const DataConfig& config) {
  const std::pair<const char*, int64_t> counts[] = {
      {"batch", config.batch()},
      {"eval_batch", config.eval_batch()},
      {"prefetch", config.prefetch()},
      {"threads", config.threads()},
      {"synthetic.train_samples", config.synthetic().train_samples()},
      {"synthetic.test_samples", config.synthetic().test_samples()},
      {"synthetic.classes", config.synthetic().classes()},
      {"text.length", config.text().length()},
      {"translation.source_length", config.translation().source_length()},
      {"translation.target_length", config.translation().target_length()}};
  for (const auto& [key, count] : counts) {
    if (count >= 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("data.", key, " is ", count, "; it must be at least 1"));
  }
  return absl::OkStatus();
}

absl::Status CheckBatch(const DataConfig& config, size_t train_samples) {
  if (static_cast<size_t>(config.batch()) <= train_samples) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("data.batch is ", config.batch(), ", but the training set has only ",
                   train_samples, " samples; lower data.batch or raise data.train_samples"));
}

bool Jitters(const AugmentConfig& augment) {
  return augment.brightness() > 0 || augment.contrast() > 0 || augment.saturation() > 0 ||
         augment.hue() > 0;
}

absl::Status CheckAugment(const DataConfig& config, const SampleShape& shape) {
  const int padding = config.augment().crop_padding();
  if (padding >= std::min(shape.height, shape.width)) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.augment.crop_padding is ", padding, ", but images are ",
                     shape.ImageText(), ": a crop could miss the image; use a smaller padding"));
  }
  for (const auto& [key, strength] : {std::pair{"saturation", config.augment().saturation()},
                                      std::pair{"hue", config.augment().hue()}}) {
    if (strength == 0 || shape.channels != 1) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "data.augment.", key, " is ", strength, ", but does nothing to grey images, and these are ",
        shape.ImageText(), "; leave it out, or change brightness and contrast"));
  }
  if (Jitters(config.augment()) && shape.channels != 1 && shape.channels != 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.augment.brightness, contrast, saturation and hue are for grey or coloured images, "
        "and these are ",
        shape.ImageText(), "; leave them out"));
  }
  return absl::OkStatus();
}

absl::Status RefuseImageKeys(const DataConfig& config) {
  const AugmentConfig& augment = config.augment();
  if (augment.crop_padding() > 0 || augment.flip() || Jitters(augment) ||
      config.mean_size() + config.stddev_size() > 0) {
    return absl::InvalidArgumentError(
        "data.augment, data.mean and data.stddev are for images; leave them out with this format");
  }
  return absl::OkStatus();
}

// `Prefix` is the class of the first samples of a set.
template <typename Prefix, typename Sets>
absl::StatusOr<DataSets> Unchanged(const DataConfig& config, Sets raw) {
  PSGD_RETURN_IF_ERROR(Limit<Prefix>("train_samples", config.train_samples(), &raw.train));
  PSGD_RETURN_IF_ERROR(Limit<Prefix>("test_samples", config.test_samples(), &raw.test));
  PSGD_RETURN_IF_ERROR(CheckBatch(config, raw.train->size()));
  DataSets sets;
  sets.shape = raw.train->shape();
  sets.train = std::make_shared<SampleSource>(std::move(raw.train));
  sets.test = std::make_shared<SampleSource>(std::move(raw.test));
  return sets;
}

using Transforms = std::vector<std::unique_ptr<const Transform>>;

// `flip`: whether a transform does the mirroring.
Transforms Augmentation(const AugmentConfig& augment, const SampleShape& shape, bool flip,
                        uint64_t seed) {
  Transforms transforms;
  if (augment.crop_padding() > 0) {
    transforms.push_back(std::make_unique<RandomCrop>(shape, augment.crop_padding(), seed));
  }
  if (flip && augment.flip()) transforms.push_back(std::make_unique<RandomFlip>(shape, seed));
  if (Jitters(augment)) {
    const ColorJitterOptions strengths{
        static_cast<float>(augment.brightness()), static_cast<float>(augment.contrast()),
        static_cast<float>(augment.saturation()), static_cast<float>(augment.hue())};
    transforms.push_back(std::make_unique<ColorJitter>(shape, strengths, seed));
  }
  return transforms;
}

absl::StatusOr<DataSets> OpenPictures(const DataConfig& config, uint64_t seed) {
  PSGD_ASSIGN_OR_RETURN(PictureSets pictures, FindPictures(config, seed));
  PSGD_RETURN_IF_ERROR(
      Limit<PrefixPictures>("train_samples", config.train_samples(), &pictures.train));
  PSGD_RETURN_IF_ERROR(
      Limit<PrefixPictures>("test_samples", config.test_samples(), &pictures.test));
  PSGD_RETURN_IF_ERROR(CheckBatch(config, pictures.train->size()));
  PSGD_RETURN_IF_ERROR(CheckAugment(config, pictures.train->shape()));
  DataSets sets;
  sets.shape = pictures.train->shape();
  PSGD_ASSIGN_OR_RETURN(sets.normalization, PictureNormalization(config));
  if (config.images().skip_damaged()) {
    auto damage = std::make_shared<DamageCount>();
    pictures.train = std::make_shared<SkipDamaged>(std::move(pictures.train), damage);
    pictures.test = std::make_shared<SkipDamaged>(std::move(pictures.test), damage);
    sets.damage = std::move(damage);
  }
  Transforms test, train = Augmentation(config.augment(), sets.shape, /*flip=*/false, seed);
  train.push_back(std::make_unique<Normalize>(sets.shape, sets.normalization));
  test.push_back(std::make_unique<Normalize>(sets.shape, sets.normalization));
  sets.train = std::make_shared<SampleSource>(std::move(pictures.train), std::move(train));
  sets.test = std::make_shared<SampleSource>(std::move(pictures.test), std::move(test));
  return sets;
}

absl::StatusOr<RawSets> OpenRaw(const DataConfig& config, uint64_t seed) {
  switch (config.format()) {
    case DataConfig::SYNTHETIC:
      return OpenSynthetic(config.synthetic(), seed);
    case DataConfig::CIFAR10:
    case DataConfig::CIFAR100:
      return OpenCifar(config);
    default:
      return OpenIdx(config);
  }
}

absl::StatusOr<DataSets> Open(const DataConfig& config, uint64_t seed) {
  PSGD_RETURN_IF_ERROR(CheckCounts(config));
  if (IsSequenceFormat(config.format())) {
    PSGD_RETURN_IF_ERROR(RefuseImageKeys(config));
    PSGD_ASSIGN_OR_RETURN(TokenSets sets, OpenSequences(config));
    return Unchanged<PrefixTokens>(config, std::move(sets));
  }
  if (IsSparseFormat(config.format())) {
    PSGD_RETURN_IF_ERROR(RefuseImageKeys(config));
    PSGD_ASSIGN_OR_RETURN(SparseSets sets, OpenSparse(config, seed));
    return Unchanged<PrefixSparse>(config, std::move(sets));
  }
  if (config.format() == DataConfig::IMAGES || config.format() == DataConfig::SEGMENTATION) {
    return OpenPictures(config, seed);
  }
  PSGD_ASSIGN_OR_RETURN(RawSets raw, OpenRaw(config, seed));
  PSGD_RETURN_IF_ERROR(Limit<PrefixDataset>("train_samples", config.train_samples(), &raw.train));
  PSGD_RETURN_IF_ERROR(Limit<PrefixDataset>("test_samples", config.test_samples(), &raw.test));
  PSGD_RETURN_IF_ERROR(CheckBatch(config, raw.train->size()));
  PSGD_RETURN_IF_ERROR(CheckAugment(config, raw.train->shape()));

  DataSets sets;
  sets.shape = raw.train->shape();
  PSGD_ASSIGN_OR_RETURN(sets.normalization, ChooseNormalization(config, *raw.train));

  Transforms test, train = Augmentation(config.augment(), sets.shape, /*flip=*/true, seed);
  train.push_back(std::make_unique<Normalize>(sets.shape, sets.normalization));
  test.push_back(std::make_unique<Normalize>(sets.shape, sets.normalization));
  sets.train = std::make_shared<SampleSource>(std::move(raw.train), std::move(train));
  sets.test = std::make_shared<SampleSource>(std::move(raw.test), std::move(test));
  return sets;
}

// The user must correct damaged and unreadable files, just as wrong keys.
absl::Status AsWrongData(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kFailedPrecondition:  // a folder where a file belongs, and the like
      return absl::InvalidArgumentError(status.message());
    default:
      return status;
  }
}

}  // namespace

absl::StatusOr<DataSets> OpenData(const DataConfig& config, uint64_t seed) {
  try {
    absl::StatusOr<DataSets> sets = Open(config, seed);
    if (!sets.ok()) return AsWrongData(sets.status());
    return sets;
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        "not enough memory to load the dataset; use a smaller one or a larger machine");
  }
}

}  // namespace psgd
