// Samples from JPEG and PNG files, which are decoded, cut and resized when they are read.
#pragma once

#include <cstdint>
#include <memory>

#include "common/status.h"
#include "data/dataset.h"
#include "data/encoded_images.h"
#include "data/view.h"
#include "proto/config.pb.h"

namespace psgd {

// Decodes the part of the picture that `viewer` chooses, as size x size pixels in [0, 1]. DataLoss:
// damaged.
absl::Status DecodeView(std::span<const uint8_t> bytes, const Viewer& viewer, const SampleKey& key,
                        int size, std::span<float> pixels);

// Samples of an image and its class or targets.
std::shared_ptr<const Dataset> MakeImageDataset(std::shared_ptr<const EncodedImages> images,
                                                const SampleShape& shape, const Viewer& viewer);

// Opens format images, with the training set augmented as configured: files with a table of labels
// (data.images.labels), tar shards if there are any, or one folder per class.
absl::StatusOr<TrainAndTest> OpenImages(const DataConfig& config, uint64_t seed);

}  // namespace psgd
