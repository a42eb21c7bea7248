// The formats of OpenData.
#pragma once

#include <cstdint>

#include "data/dataset.h"
#include "data/normalization.h"
#include "proto/config.pb.h"

namespace psgd {

bool IsSequenceFormat(DataConfig::Format format);
bool IsSparseFormat(DataConfig::Format format);
// Whether samples are rows of numbers in memory.
bool IsRowFormat(DataConfig::Format format);
// Whether images come from files of their own, which are decoded when they are read.
bool IsPictureFormat(DataConfig::Format format);

// Checks the keys of the config's format and opens its files.
absl::StatusOr<TrainAndTest> OpenFormat(const DataConfig& config, uint64_t seed);

// Returns what the config says of pictures, or else the constants of the literature, measured on
// ImageNet. Nothing is measured here, because pictures are costly to read.
absl::StatusOr<Normalization> PictureNormalization(const DataConfig& config);

}  // namespace psgd
