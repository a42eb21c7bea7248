// The memory that a program on this host may still take.
#pragma once

#include <cstddef>
#include <string>

namespace psgd {

// Returns the bytes that can be taken without swapping: the free memory of the host, or less if a
// limit of this process (ulimit -v) or of its control group (container, batch system) leaves less.
// 0: unknown. Tests set `root`, a prefix of all paths.
size_t AvailableMemory(const std::string& root = "");

}  // namespace psgd
