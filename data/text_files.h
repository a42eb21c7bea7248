// The bytes of text files one behind the other.
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

// Thread-safe: immutable.
class TextFiles {
 public:
  using Value = uint8_t;

  // Gzip is unpacked into memory, for nobody knows where a byte of it lies; of other files nothing
  // is kept. An error names the file, as where all together have more than `most` bytes.
  static absl::StatusOr<std::shared_ptr<const TextFiles>> Open(
      const std::vector<std::string>& paths, uint64_t most);
  uint64_t size() const { return size_; }
  // Fills `out` from byte `offset` of all on; DataLoss if a file has become shorter meanwhile.
  // REQUIRES: offset + out.size() <= size().
  absl::Status Read(uint64_t offset, std::span<uint8_t> out) const;

 private:
  struct Piece {
    std::string path;
    uint64_t begin = 0;
    uint64_t size = 0;
    std::vector<uint8_t> unpacked = {};  // all of it, where it is gzip
    std::optional<RangeFile> file = {};  // kept open, where there are few
  };

  static absl::Status ReadPiece(const Piece& piece, uint64_t offset, std::span<uint8_t> out);
  absl::Status Add(const std::string& path, bool keep_open, uint64_t most);

  std::vector<Piece> pieces_;  // none is empty
  uint64_t size_ = 0;
};

}  // namespace psgd
