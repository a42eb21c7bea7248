// Run directories as they are found: whole, damaged, or with strangers in them.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"

namespace psgd {

// The run directories at `root` and at most so many folders below it, each once, in order. One that
// lost some of its files is known by the others. What lies in a run's directory is no run of its
// own.
std::vector<std::string> FindRunDirs(const std::string& root, int depth);

// Not OK: opening it may fail, or wait for good, as a pipe does.
absl::Status CheckRegularFile(const std::string& path);

}  // namespace psgd
