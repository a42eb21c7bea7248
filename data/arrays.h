// Samples in NumPy arrays: x, whose first axis counts samples, and y, what is to be predicted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "data/dataset.h"
#include "data/npy.h"
#include "data/number_scale.h"
#include "proto/config.pb.h"

namespace psgd {

struct ArraysOptions {
  std::string path;            // an .npz file with x and y, or a folder with x.npy and y.npy
  std::string test = {};       // likewise; empty: the last samples of the other
  double test_fraction = 0.1;  // share of samples for the test, if no file has them
  DataConfig::TargetKind kind = DataConfig::CLASS;
  ArrayInput::Kind input = ArrayInput::NUMBERS;
  bool standardize = true;  // else numbers stay as they are
};

// Loads both sets into memory, 4 bytes a number. x is N, N F (rows of numbers), N H W (grey images)
// or N C H W. A column of a row, or a channel of an image, is normalized by the training samples.
// Tokens are whole numbers, N T, of which 0 is padding. y is N, or N and any sides, which are
// targets. Classes may also be N T of tokens, or N H W of images: a label each, of which those
// below 0, and 255 of pixels, are not counted. Errors name the file, the array, the sample and what
// to do.
absl::StatusOr<TrainAndTest> LoadArrays(const ArraysOptions& options);

// x and y of one file or folder.
struct ArrayPair {
  std::string path;
  NpyArray x, y;
  std::string x_name = "x", y_name = "y";  // for errors

  size_t samples() const { return x.shape().empty() ? 0 : x.shape()[0]; }
};

// As LoadArrays, of pairs that are in memory. A second one is the test.
absl::StatusOr<TrainAndTest> LoadArrayPairs(std::vector<ArrayPair> pairs,
                                            const ArraysOptions& options);

// Loads x alone, from an .npz or .npy file or a folder, for samples of that shape, and normalizes
// it. `scales`: of the columns, or of the channels. One sample after another. REQUIRES: as many
// values of a sample for each scale.
absl::StatusOr<std::vector<float>> LoadNewArray(const std::string& path, const SampleShape& shape,
                                                std::span<const NumberScale> scales);
// Likewise for sequences of tokens.
absl::StatusOr<std::vector<int32_t>> LoadNewTokens(const std::string& path,
                                                   const SampleShape& shape);

}  // namespace psgd
