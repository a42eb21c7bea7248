// The data of a config, as its network takes them.
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

// Opens them. Errors as of OpenData, or of the ONNX file.
absl::StatusOr<DataSets> OpenDataOf(const Config& config);

struct PaddingNote {
  std::string text;      // for people; empty if there is nothing to say
  bool of_many = false;  // more than 1 sample of 20: it is no rare token, but padding in front
};
// Says if the network takes a sequence only up to its first token 0, as padding, and arrays have
// other tokens behind it. Such networks would learn nothing of a row that begins with padding. The
// text begins with `what`, as "data.npz: training sample".
absl::StatusOr<PaddingNote> CheckPadding(const Config& config, const SampleSource& samples,
                                         const std::string& what);
// Of the training set, or else of the test set.
absl::StatusOr<PaddingNote> CheckPadding(const Config& config, const DataSets& data);

}  // namespace psgd
