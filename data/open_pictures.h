// Turns the data section of a config into pictures: formats images and segmentation.
#pragma once

#include <cstdint>

#include "common/status.h"
#include "data/images.h"
#include "data/normalization.h"
#include "proto/config.pb.h"

namespace psgd {

// Checks the keys of data.images and finds the files.
absl::StatusOr<PictureSets> FindPictures(const DataConfig& config, uint64_t seed);

// Returns what the config says, or else the constants of the literature, measured on ImageNet.
// Nothing is measured here, because pictures are costly to read.
absl::StatusOr<Normalization> PictureNormalization(const DataConfig& config);

}  // namespace psgd
