// Images in folders, one a class:
//
//   FOLDER/train/CLASS/*.jpg and FOLDER/test/CLASS/*.jpg   (val instead of test, .jpeg, any case)
//
// Classes are numbered by the order of their names. Samples come from the classes in turn, each
// class's by their names, so that the first so many of them are a fair part.
#pragma once

#include <string>

#include "common/status.h"
#include "data/encoded_images.h"

namespace psgd {

// Lists the folders; opens no image.
absl::StatusOr<EncodedSets> ListImageFolders(const std::string& folder);

// The names in `folder` of files that a JPEG's name ends, sorted.
absl::StatusOr<std::vector<std::string>> JpegNames(const std::string& folder);

// FOLDER/test, or FOLDER/val if there is none; an error if there is neither.
absl::StatusOr<std::string> TestFolder(const std::string& folder);

}  // namespace psgd
