#include "data/open_data.h"

#include <algorithm>
#include <utility>

#include "data/color_jitter.h"
#include "data/open_formats.h"
#include "data/preparation.h"
#include "data/read_user_data.h"

namespace psgd {
namespace {

absl::Status Limit(absl::string_view key, int64_t limit, std::shared_ptr<const Dataset>* set) {
  if (limit == 0) return absl::OkStatus();
  if (static_cast<uint64_t>(limit) > (*set)->size()) {
    return InvalidArgumentError("data.", key, " is ", limit, ", but there are ", (*set)->size(),
                                " samples; lower it, or set it to 0 for all");
  }
  *set = std::make_shared<ReadDataset>(static_cast<size_t>(limit), (*set)->shape(),
                                       [whole = *set](const SampleKey& key, const Sample& sample) {
                                         return whole->Read(key, sample);
                                       });
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
    return InvalidArgumentError("data.", key, " is ", count, "; it must be at least 1");
  }
  return absl::OkStatus();
}

absl::Status CheckBatch(const DataConfig& config, size_t train_samples) {
  if (static_cast<size_t>(config.batch()) <= train_samples) return absl::OkStatus();
  return InvalidArgumentError("data.batch is ", config.batch(), ", but the training set has only ",
                              train_samples,
                              " samples; lower data.batch or raise data.train_samples");
}

bool Jitters(const AugmentConfig& augment) {
  return augment.brightness() > 0 || augment.contrast() > 0 || augment.saturation() > 0 ||
         augment.hue() > 0;
}

absl::Status CheckAugment(const DataConfig& config, const SampleShape& shape) {
  const int padding = config.augment().crop_padding();
  if (padding >= std::min(shape.height, shape.width)) {
    return InvalidArgumentError("data.augment.crop_padding is ", padding, ", but images are ",
                                shape.ImageText(),
                                ": a crop could miss the image; use a smaller padding");
  }
  for (const auto& [key, strength] : {std::pair{"saturation", config.augment().saturation()},
                                      std::pair{"hue", config.augment().hue()}}) {
    if (strength == 0 || shape.channels != 1) continue;
    return InvalidArgumentError(
        "data.augment.", key, " is ", strength, ", but does nothing to grey images, and these are ",
        shape.ImageText(), "; leave it out, or change brightness and contrast");
  }
  if (Jitters(config.augment()) && shape.channels != 1 && shape.channels != 3) {
    return InvalidArgumentError(
        "data.augment.brightness, contrast, saturation and hue are for grey or coloured images, "
        "and these are ",
        shape.ImageText(), "; leave them out");
  }
  return absl::OkStatus();
}

absl::Status RefuseImageKeys(const DataConfig& config) {
  const AugmentConfig& augment = config.augment();
  if (augment.crop_padding() > 0 || augment.flip() || Jitters(augment) ||
      config.mean_size() + config.stddev_size() > 0) {
    return absl::InvalidArgumentError(
        "data.augment, data.mean and data.stddev are for images of bytes; leave them out with this "
        "format; tables and arrays stay as they are with data.standardize: false");
  }
  return absl::OkStatus();
}

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

absl::StatusOr<DataSets> Open(const DataConfig& config, uint64_t seed) {
  PSGD_RETURN_IF_ERROR(CheckCounts(config));
  const bool pictures = IsPictureFormat(config.format());
  bool images = !IsSequenceFormat(config.format()) && !IsSparseFormat(config.format()) &&
                !IsRowFormat(config.format());
  if (!images) PSGD_RETURN_IF_ERROR(RefuseImageKeys(config));  // opening may take long
  PSGD_ASSIGN_OR_RETURN(TrainAndTest raw, OpenFormat(config, seed));
  if (images && raw.preparation.planes_size() > 0) {  // idx files of numbers that are no bytes
    images = false;
    PSGD_RETURN_IF_ERROR(RefuseImageKeys(config));
  }
  PSGD_RETURN_IF_ERROR(Limit("train_samples", config.train_samples(), &raw.train));
  PSGD_RETURN_IF_ERROR(Limit("test_samples", config.test_samples(), &raw.test));
  PSGD_RETURN_IF_ERROR(CheckBatch(config, raw.train->size()));
  DataSets sets;
  sets.shape = raw.train->shape();
  sets.targets = std::move(raw.targets);
  sets.preparation = std::move(raw.preparation);
  sets.note = std::move(raw.note);
  CompletePreparation(sets.shape, sets.targets, &sets.preparation);
  if (sets.preparation.too_large()) {
    AddNote(TooLargeText(), &sets.note);
  }
  Transforms train, test;
  if (images) {
    PSGD_RETURN_IF_ERROR(CheckAugment(config, sets.shape));
    PSGD_ASSIGN_OR_RETURN(sets.normalization, pictures ? PictureNormalization(config)
                                                       : ChooseNormalization(config, *raw.train));
    train = Augmentation(config.augment(), sets.shape, /*flip=*/!pictures, seed);
    train.push_back(std::make_unique<Normalize>(sets.shape, sets.normalization));
    test.push_back(std::make_unique<Normalize>(sets.shape, sets.normalization));
  }
  if (pictures) {
    const auto damage = config.images().skip_damaged() ? std::make_shared<DamageCount>() : nullptr;
    raw.train = std::make_shared<SkipDamaged>(std::move(raw.train), damage);
    raw.test = std::make_shared<SkipDamaged>(std::move(raw.test), damage);
    sets.damage = damage;
  }
  sets.train = std::make_shared<SampleSource>(std::move(raw.train), std::move(train));
  sets.test = std::make_shared<SampleSource>(std::move(raw.test), std::move(test));
  return sets;
}

}  // namespace

absl::StatusOr<DataSets> OpenData(const DataConfig& config, uint64_t seed) {
  DataSets sets;
  PSGD_RETURN_IF_ERROR(ReadUserData([&]() -> absl::Status {
    PSGD_ASSIGN_OR_RETURN(sets, Open(config, seed));
    return absl::OkStatus();
  }));
  return sets;
}

}  // namespace psgd
