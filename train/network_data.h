// The data of a config, as its network takes them.
#pragma once

#include "common/status.h"
#include "data/open_data.h"
#include "proto/config.pb.h"

namespace psgd {

// Returns config.data() with `input` and `images.channels` chosen by the network where they are
// auto. Reads an ONNX file if its input decides.
absl::StatusOr<DataConfig> DataOf(const Config& config);

// Opens them. Errors as of OpenData, or of the ONNX file.
absl::StatusOr<DataSets> OpenDataOf(const Config& config);

}  // namespace psgd
