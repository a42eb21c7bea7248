// Images in tar archives, as WebDataset lays them out:
//
//   FOLDER/train-*.tar and FOLDER/test-*.tar   (val instead of test)
//
// An image is a member KEY.jpg (or .jpeg, .png). Its class, a number in text, is a member KEY.cls
// beside it. The key is the path up to the first dot of its last part. Members of other kinds are
// ignored. Samples come in the order of the archives' names, and in their order within an archive.
// The number of classes is the largest training label plus one.
#pragma once

#include <string>

#include "common/status.h"
#include "data/encoded_images.h"

namespace psgd {

// Whether the folder has a train-*.tar.
bool HasImageShards(const std::string& folder);

// Reads the headers and classes of every archive, but no image. Takes 24 bytes of memory an image.
absl::StatusOr<EncodedSets> IndexImageShards(const std::string& folder);

}  // namespace psgd
