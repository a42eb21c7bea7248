// Reads and replaces small files as a whole. Errors say what to do about a path.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

// Returns "cannot ACTION PATH: CAUSE" with the code that fits `error` (an errno), and with the next
// step if one is obvious.
absl::Status FileError(absl::string_view action, const std::string& path, int error);

// A file larger than `limit` bytes is an error.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, size_t limit);

// Writes a temporary file beside `path`, syncs it and renames it over `path`. After a crash at any
// moment, and for any reader, `path` holds either the old contents or the new. AtomicFile
// (common/atomic_file.h) says what becomes of links and devices.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view contents);

// The mount point of the file system of this file or folder, which need not exist yet.
std::string MountPointOf(const std::string& path);

}  // namespace psgd
