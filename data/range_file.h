// Reads any part of a file, without holding the rest in memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"

namespace psgd {

// A file to read from. Thread-safe: reading moves no cursor. Every error names the file.
class RangeFile {
 public:
  static absl::StatusOr<RangeFile> Open(const std::string& path);
  ~RangeFile();
  RangeFile(RangeFile&& other) noexcept;
  RangeFile& operator=(RangeFile&&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }  // at the time of Open
  // Fills `out` from `offset` on; DataLoss if the file ends too early.
  absl::Status Read(uint64_t offset, std::span<uint8_t> out) const;

 private:
  RangeFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

// Reads the whole file. A file above `limit` bytes is an error.
absl::StatusOr<std::vector<uint8_t>> ReadWholeFile(const std::string& path, uint64_t limit);

}  // namespace psgd
