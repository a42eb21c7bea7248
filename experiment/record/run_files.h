// Finds run directories, whole or damaged, among other files.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"

namespace psgd {

// Lists the run directories at `root` and up to `depth` folders below, each once, in order. A
// directory with missing files is recognized by the others. Folders inside a run directory are not
// runs.
std::vector<std::string> FindRunDirs(const std::string& root, int depth);

// Not OK: opening the file may fail, or may block forever as a pipe does.
absl::Status CheckRegularFile(const std::string& path);

}  // namespace psgd
