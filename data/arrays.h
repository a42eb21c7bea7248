// Samples in NumPy arrays: x, whose first axis counts samples, and y, what is to be predicted.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "data/dataset.h"
#include "data/number_scale.h"
#include "proto/config.pb.h"

namespace psgd {

struct ArraysOptions {
  std::string path;            // an .npz file with x and y, or a folder with x.npy and y.npy
  std::string test = {};       // likewise; empty: the last samples of the other
  double test_fraction = 0.1;  // share of samples for the test, if no file has them
  DataConfig::TargetKind kind = DataConfig::CLASS;
};

// Loads both sets into memory, 4 bytes a number. x is N F (rows of numbers), N H W (grey images) or
// N C H W. A column of a row, or a channel of an image, is normalized by the training samples. y is
// N, or N T. Errors name the file, the array, the sample and what to do.
absl::StatusOr<TrainAndTest> LoadArrays(const ArraysOptions& options);

// Loads x alone, from an .npz or .npy file or a folder, for samples of that shape, and normalizes
// it. `scales`: of the columns, or of the channels. One sample after another. REQUIRES: as many
// values of a sample for each scale.
absl::StatusOr<std::vector<float>> LoadNewArray(const std::string& path, const SampleShape& shape,
                                                std::span<const NumberScale> scales);

}  // namespace psgd
