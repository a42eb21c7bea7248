// Images with a class for every pixel:
//
//   FOLDER/train/images/*.jpg and FOLDER/train/masks/*.png: each image (.jpg, .jpeg or .png) has a
//   mask (.png or .pgm) of the same name and size. FOLDER/test (or val) has the same layout.
//
// A mask is a grey PNG, a PNG with a palette, or a binary PGM. Its values, or places in the
// palette, are classes, or 255: not counted.
#pragma once

#include <cstdint>

#include "common/status.h"
#include "data/images.h"
#include "proto/config.pb.h"

namespace psgd {

inline constexpr int kIgnoredPixel = 255;

// Lists the folders, and checks that images and masks are pairs and that the training masks have
// two classes. An image and its mask are cut and mirrored alike.
absl::StatusOr<TrainAndTest> OpenSegmentation(const DataConfig& config, uint64_t seed);

}  // namespace psgd
