// Finds other psgd programs and files.
#pragma once

#include <string>

#include "common/status.h"

namespace psgd {

// The folder of the running executable.
absl::StatusOr<std::string> ProgramDir();

// The path of the program `name` in that folder. Fails if the program is not there.
absl::StatusOr<std::string> SiblingProgram(const std::string& name);

// The path of a script such as "scripts/netns.sh", in the source tree of this build or where it was
// installed.
absl::StatusOr<std::string> ShippedFile(const std::string& path);

// The path of a system program: looks in PATH, unless `name` is a path.
absl::StatusOr<std::string> FoundProgram(const std::string& name);

}  // namespace psgd
