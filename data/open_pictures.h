// From the data section of a config to pictures: formats images and segmentation.
#pragma once

#include <cstdint>

#include "common/status.h"
#include "data/images.h"
#include "data/normalization.h"
#include "proto/config.pb.h"

namespace psgd {

// Checks the keys of data.images and finds the files.
absl::StatusOr<PictureSets> FindPictures(const DataConfig& config, uint64_t seed);

// What the config says, or else the constants of the literature, measured on ImageNet: pictures are
// costly to read, so nothing is measured on them.
absl::StatusOr<Normalization> PictureNormalization(const DataConfig& config);

}  // namespace psgd
