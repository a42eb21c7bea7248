// From the data section of a config to samples ready for the network.
#pragma once

#include <cstdint>
#include <memory>

#include "common/status.h"
#include "data/dataset.h"
#include "data/normalization.h"
#include "data/skip_damaged.h"
#include "data/transforms.h"
#include "proto/config.pb.h"

namespace psgd {

struct DataSets {
  std::shared_ptr<const SampleSource> train;  // images: augmented as configured, then normalised
  std::shared_ptr<const SampleSource> test;   // images: normalised
  SampleShape shape;
  Normalization normalization;                // of images
  std::shared_ptr<const DamageCount> damage;  // null unless data.images.skip_damaged
};

// `seed`: the run's; keys synthetic samples and augmentation. Every error says which key or file is
// at fault and what to do: InvalidArgument or NotFound where the config or the files are.
absl::StatusOr<DataSets> OpenData(const DataConfig& config, uint64_t seed);

}  // namespace psgd
