// The data of a config, in the form that its network takes.
#pragma once

#include <string>

#include "common/status.h"
#include "data/open_data.h"
#include "data/transforms.h"
#include "proto/config.pb.h"

namespace psgd {

// Returns config.data() with `input` and `images.channels` chosen by the network where they are
// auto. Reads an ONNX file if its input decides.
absl::StatusOr<DataConfig> DataOf(const Config& config);

// Opens the data of the config. Errors are those of OpenData, or about the ONNX file.
absl::StatusOr<DataSets> OpenDataOf(const Config& config);

struct PaddingNote {
  std::string text;      // for people; empty if there is nothing to say
  bool of_many = false;  // more than 1 sample of 20 has it: token 0 is padding, and not just rare
};
// Some networks take token 0 as padding, and read a sequence only up to its first 0. The note says
// if rows of arrays have other tokens after a 0: such a network would learn nothing from a row that
// begins with padding. The text begins with `what`, such as "data.npz: training sample".
absl::StatusOr<PaddingNote> CheckPadding(const Config& config, const SampleSource& samples,
                                         const std::string& what);
// The note about the training set. If that set needs no note, or if many samples of the test set
// alone do, it is the note about the test set.
absl::StatusOr<PaddingNote> CheckPadding(const Config& config, const DataSets& data);

}  // namespace psgd
