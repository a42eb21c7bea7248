// The bytes of text files, one file after another.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "data/range_file.h"

namespace psgd {

// The most bytes of all texts of a dataset, because sample indices travel as u32, and an epoch's
// order holds one index for each sample.
inline constexpr uint64_t kMostTextBytes = uint64_t{1} << 30;

// The concatenated bytes of files. Thread-safe: immutable.
class TextFiles {
 public:
  using Value = uint8_t;

  // Gzip files are unpacked into memory, because their bytes cannot be located. Other files are not
  // kept in memory. Errors name the file. More than `most` bytes in total is an error.
  static absl::StatusOr<std::shared_ptr<const TextFiles>> Open(
      const std::vector<std::string>& paths, uint64_t most);
  uint64_t size() const { return size_; }
  // Fills `out` from byte `offset` of the whole on; DataLoss if a file has become shorter.
  // REQUIRES: offset + out.size() <= size().
  absl::Status Read(uint64_t offset, std::span<uint8_t> out) const;

 private:
  struct Piece {
    std::string path;
    uint64_t begin = 0;
    uint64_t size = 0;
    std::vector<uint8_t> unpacked = {};  // the whole file, if it is gzip
    std::optional<RangeFile> file = {};  // kept open, if there are few files
  };

  static absl::Status ReadPiece(const Piece& piece, uint64_t offset, std::span<uint8_t> out);
  absl::Status Add(const std::string& path, bool keep_open, uint64_t most);

  std::vector<Piece> pieces_;  // none is empty
  uint64_t size_ = 0;
};

// Reads the text of one file, which may be gzip. An error if it is blank, or above `most` bytes.
absl::StatusOr<std::string> ReadTextFile(const std::string& path, uint64_t most);

}  // namespace psgd
