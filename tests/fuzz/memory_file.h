// A file in memory for readers that need a path. It leaves nothing on disk.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <span>
#include <string>

#include "tests/fuzz/fuzz.h"

namespace psgd::fuzz {

class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    Require(descriptor_ >= 0, "there is no memory for a file");
    path_ = "/proc/self/fd/" + std::to_string(descriptor_);
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  const std::string& path() const { return path_; }

  // Replaces the contents.
  void Set(std::span<const uint8_t> contents) {
    Require(ftruncate(descriptor_, 0) == 0, "the file cannot be emptied");
    const ssize_t written = pwrite(descriptor_, contents.data(), contents.size(), 0);
    Require(written == static_cast<ssize_t>(contents.size()), "the file cannot be written");
  }

 private:
  const int descriptor_;
  std::string path_;
};

}  // namespace psgd::fuzz
