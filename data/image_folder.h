// Images in one folder per class:
//
//   FOLDER/train/CLASS/*.jpg and FOLDER/test/CLASS/*.jpg
//   (val instead of test; .jpeg or .png, any case)
//
// Classes are numbered in the order of their names. Samples come from the classes in turn, and
// within a class in the order of names, so that any first part of them is a fair one.
#pragma once

#include <string>

#include "common/status.h"
#include "data/encoded_images.h"

namespace psgd {

// Lists the folders, without opening an image.
absl::StatusOr<EncodedSets> ListImageFolders(const std::string& folder);

// Returns the names of the files in `folder` that end like those of a JPEG or PNG, sorted.
absl::StatusOr<std::vector<std::string>> PictureNames(const std::string& folder);

// Returns FOLDER/test, or FOLDER/val if there is no test; an error if there is neither.
absl::StatusOr<std::string> TestFolder(const std::string& folder);

}  // namespace psgd
