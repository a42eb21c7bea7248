// A file read from front to back, unpacked on the way if it is gzip.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "data/range_file.h"

namespace psgd {

// Gzip is recognized by the file's first bytes, not by its name; checksums are checked. Every error
// names the file. Not thread-safe.
class UnpackedFile {
 public:
  static absl::StatusOr<std::unique_ptr<UnpackedFile>> Open(const std::string& path);
  ~UnpackedFile();
  UnpackedFile(const UnpackedFile&) = delete;
  UnpackedFile& operator=(const UnpackedFile&) = delete;

  // Fills `out`; an error if the file ends too early.
  absl::Status Read(std::span<uint8_t> out);
  // Fills `out` as far as the file goes; returns the number of bytes. An error if gzip data are
  // damaged or end before their own end.
  absl::StatusOr<size_t> ReadSome(std::span<uint8_t> out);
  // An error if data follow, or if what was read does not match the gzip checksum.
  absl::Status ExpectEnd();
  bool packed() const { return gzip_; }
  // Upper bound of the unpacked size, so no honest header announces more.
  uint64_t most_bytes() const;
  // Returns the error "path: problem".
  absl::Status Bad(absl::string_view problem) const;

 private:
  explicit UnpackedFile(RangeFile file) : file_(std::move(file)) {}
  absl::Status DetectGzip();
  // Loads the next piece of the file into input_; leaves it empty at the end.
  absl::Status Refill();
  // Both return the number of bytes written: less than out.size() only at the end of the file.
  absl::StatusOr<size_t> ReadPlain(std::span<uint8_t> out);
  absl::StatusOr<size_t> ReadGzip(std::span<uint8_t> out);

  const RangeFile file_;
  uint64_t taken_ = 0;          // bytes of the file that were loaded
  std::vector<uint8_t> input_;  // data of the file; stream_.next_in points to the unused rest
  z_stream stream_{};
  bool gzip_ = false;
  bool between_members_ = false;  // gzip: the stream may end here
};

}  // namespace psgd
