// How much memory a program on this host may still take.
#pragma once

#include <cstddef>
#include <string>

namespace psgd {

// Bytes that can be taken without swapping: what the host has left, or what limits leave of it, on
// this process (ulimit -v) or its control group (of a container or a batch system). 0 where nothing
// says.
// `root` stands before all paths, for tests.
size_t AvailableMemory(const std::string& root = "");

}  // namespace psgd
