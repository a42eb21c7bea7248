// Images in tar archives, as WebDataset lays them out:
//
//   FOLDER/train-*.tar and FOLDER/test-*.tar   (val instead of test)
//
// Each image is a member KEY.jpg (or .jpeg) and its class, a number in text, a member KEY.cls
// beside it; the key is the path up to the first dot of its last part. Members of other kinds are
// left out. Samples come in the order of the archives' names and within them. There are as many
// classes as the largest training label plus one.
#pragma once

#include <string>

#include "common/status.h"
#include "data/encoded_images.h"

namespace psgd {

// Whether there is a train-*.tar in the folder.
bool HasImageShards(const std::string& folder);

// Reads every archive's headers and classes, no image: 24 bytes of memory an image.
absl::StatusOr<EncodedSets> IndexImageShards(const std::string& folder);

}  // namespace psgd
