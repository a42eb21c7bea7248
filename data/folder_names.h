// The names in a folder whose parts are classes.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

// Both return sorted names without those that begin with a dot. Errors name the folder.

// The folders in `folder`, one for each class. An error if there is none.
absl::StatusOr<std::vector<std::string>> ClassFolders(const std::string& folder);

// The files in `folder` whose names end with one of `endings`, in any case; none: all regular
// files.
absl::StatusOr<std::vector<std::string>> FileNames(const std::string& folder,
                                                   const std::vector<absl::string_view>& endings);

}  // namespace psgd
