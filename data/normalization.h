// Mean and standard deviation of each channel.
#pragma once

#include <vector>

#include "common/status.h"
#include "data/dataset.h"
#include "proto/config.pb.h"

namespace psgd {

// One entry per channel.
struct Normalization {
  std::vector<float> mean;
  std::vector<float> stddev;
};

// Measures the whole dataset, or kMeasuredSamples spread evenly over a larger one. The result has
// the same bits each time. A channel that never varies gets a stddev of 1.
inline constexpr size_t kMeasuredSamples = 65536;
absl::StatusOr<Normalization> MeasureNormalization(const Dataset& dataset);

// Returns what the config says, for that many channels. REQUIRES: it says a mean or a stddev.
absl::StatusOr<Normalization> GivenNormalization(const DataConfig& config, int channels);

// Returns what the config says, or else what is measured on `train`.
absl::StatusOr<Normalization> ChooseNormalization(const DataConfig& config, const Dataset& train);

}  // namespace psgd
