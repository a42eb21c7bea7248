#include "data/open_pictures.h"

#include "absl/strings/str_cat.h"
#include "data/segmentation.h"

namespace psgd {
namespace {

constexpr int kMostSide = 4096;
constexpr int kMostRatio = 16;

// The config may come from another process, where nobody checked its ranges.
absl::Status CheckImages(const DataConfig& config) {
  const ImagesConfig& images = config.images();
  const AugmentConfig& augment = config.augment();
  if (images.size() < 1 || images.size() > kMostSide ||
      (images.resize() != 0 && images.resize() < images.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.images.size is ", images.size(), " and data.images.resize ", images.resize(),
        "; the size must be from 1 to ", kMostSide, ", and resize at least the size, or 0"));
  }
  if (!(augment.crop_area() > 0 && augment.crop_area() <= 1) ||
      !(augment.crop_ratio() >= 1 && augment.crop_ratio() <= kMostRatio)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.augment.crop_area is ", augment.crop_area(), " and crop_ratio ", augment.crop_ratio(),
        "; they must be above 0 and up to 1, and from 1 to ", kMostRatio));
  }
  if (config.format() == DataConfig::SEGMENTATION &&
      (images.classes() < 2 || augment.crop_padding() > 0)) {
    return absl::InvalidArgumentError(
        "format segmentation needs data.images.classes of at least 2, and cuts with "
        "data.augment.resized_crop, not crop_padding");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PictureSets> FindPictures(const DataConfig& config, uint64_t seed) {
  PSGD_RETURN_IF_ERROR(CheckImages(config));
  return config.format() == DataConfig::SEGMENTATION ? OpenSegmentation(config, seed)
                                                     : OpenImages(config, seed);
}

absl::StatusOr<Normalization> PictureNormalization(const DataConfig& config) {
  if (config.mean().empty() && config.stddev().empty()) {
    return Normalization{{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};
  }
  return GivenNormalization(config, /*channels=*/3);
}

}  // namespace psgd
