// Small files that are read whole and replaced whole, and errors that say what to do about a path.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

// "cannot ACTION PATH: CAUSE", with the code that fits `error` (an errno) and, where there is an
// obvious one, the next step.
absl::Status FileError(absl::string_view action, const std::string& path, int error);

// At most `limit` bytes; a larger file is an error.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, size_t limit);

// Writes a temporary file beside `path`, syncs it and renames it over `path`: a reader, or a crash
// at any moment, sees the old contents or the new.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view contents);

}  // namespace psgd
