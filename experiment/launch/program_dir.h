// Where this program's siblings are.
#pragma once

#include <string>

#include "common/status.h"

namespace psgd {

// The folder of the running executable.
absl::StatusOr<std::string> ProgramDir();

// The path of the program `name` in that folder; an error when it is not there.
absl::StatusOr<std::string> SiblingProgram(const std::string& name);

// A script such as "scripts/netns.sh": in the source tree of this build, or where it was installed.
absl::StatusOr<std::string> ShippedFile(const std::string& path);

// A program of the system: where PATH has it, unless `name` is a path.
absl::StatusOr<std::string> FoundProgram(const std::string& name);

}  // namespace psgd
