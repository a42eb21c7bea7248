// Samples from JPEG files, which are decoded, cut and resized when they are read.
#pragma once

#include <cstdint>
#include <memory>

#include "common/status.h"
#include "data/dataset.h"
#include "data/encoded_images.h"
#include "data/view.h"
#include "proto/config.pb.h"

namespace psgd {

// Decodes the part of the JPEG that `viewer` chooses, as size x size pixels in [0, 1]. The image is
// decoded at a fraction of its size if that is enough. DataLoss: damaged.
absl::Status DecodeView(std::span<const uint8_t> jpeg, const Viewer& viewer, const SampleKey& key,
                        int size, std::span<float> pixels);

// Samples of an image and its class.
std::shared_ptr<const Dataset> MakeImageDataset(std::shared_ptr<const EncodedImages> images,
                                                int classes, int size, const Viewer& viewer);

// Opens format images, with the training set augmented as configured: tar shards if there are any,
// else one folder per class.
absl::StatusOr<TrainAndTest> OpenImages(const DataConfig& config, uint64_t seed);

}  // namespace psgd
