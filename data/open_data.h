// Turns the data section of a config into samples for the network.
#pragma once

#include <cstdint>
#include <memory>

#include "common/status.h"
#include "data/dataset.h"
#include "data/normalization.h"
#include "data/skip_damaged.h"
#include "data/transforms.h"
#include "proto/config.pb.h"
#include "proto/model.pb.h"

namespace psgd {

struct DataSets {
  std::shared_ptr<const SampleSource> train;  // images: augmented as configured, then normalized
  std::shared_ptr<const SampleSource> test;   // images: normalized
  SampleShape shape;
  Targets targets;
  Normalization normalization;                // of images
  std::shared_ptr<const DamageCount> damage;  // null unless data.images.skip_damaged
  Preparation preparation;                    // what new samples need (data/new_samples.h)
  std::string note;                           // for people, if the sets may be wrong; lines
};

// `seed` is the run's; it keys synthetic samples and augmentation. Every error names the wrong key
// or file and says what to do. It is InvalidArgument or NotFound if the config or a file is wrong.
absl::StatusOr<DataSets> OpenData(const DataConfig& config, uint64_t seed);

}  // namespace psgd
