// Images in any files, with a table that says what they show.
#pragma once

#include "common/status.h"
#include "data/encoded_images.h"
#include "proto/config.pb.h"

namespace psgd {

// Reads the table data.images.labels of data.path: a column `file`, relative to data.path, and the
// columns of data.target. The test is another such table (data.table.test), or the last rows.
// Checks that every file is there and comes once, without opening an image.
absl::StatusOr<EncodedSets> ListLabelledImages(const DataConfig& config);

}  // namespace psgd
