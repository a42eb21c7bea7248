// Samples of JPEG files: decoded, cut and resized when they are read.
#pragma once

#include <cstdint>
#include <memory>

#include "common/status.h"
#include "data/dataset.h"
#include "data/encoded_images.h"
#include "data/view.h"
#include "proto/config.pb.h"

namespace psgd {

struct PictureSets {
  std::shared_ptr<const PictureDataset> train;  // augmented as configured
  std::shared_ptr<const PictureDataset> test;
};

// The image of those bytes as far as `view` shows it, as size x size pixels in [0, 1]. Decoded at a
// fraction of its size where that is enough. DataLoss: damaged.
absl::Status DecodeView(std::span<const uint8_t> jpeg, const Viewer& viewer, const SampleKey& key,
                        int size, std::span<float> pixels);

// An image and its class.
std::shared_ptr<const PictureDataset> MakeImageDataset(std::shared_ptr<const EncodedImages> images,
                                                       int classes, int size, const Viewer& viewer);

// Format images: tar shards where there are any, else a folder a class.
absl::StatusOr<PictureSets> OpenImages(const DataConfig& config, uint64_t seed);

}  // namespace psgd
