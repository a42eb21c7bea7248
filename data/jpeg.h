// JPEG, by libturbojpeg. Only the .cc includes its header.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/status.h"
#include "data/picture.h"

namespace psgd {

// Reads one JPEG. Open reads the size, Decode the pixels. Not thread-safe.
class JpegReader {
 public:
  // DataLoss: not a JPEG, or damaged. REQUIRES: the bytes outlive the reader.
  static absl::StatusOr<JpegReader> Open(std::span<const uint8_t> bytes);
  ~JpegReader();
  JpegReader(JpegReader&&) noexcept;
  JpegReader& operator=(JpegReader&&) = delete;

  int width() const { return width_; }
  int height() const { return height_; }

  // Decodes the image in red, green and blue, each side divided by `shrink` (1, 2, 4 or 8) and
  // rounded up, which costs a fraction. Any irregularity, truncation included, is DataLoss.
  absl::StatusOr<Picture> Decode(int shrink) const;

 private:
  struct Close {
    void operator()(void* handle) const;
  };

  JpegReader(void* handle, std::span<const uint8_t> bytes) : handle_(handle), bytes_(bytes) {}
  absl::Status Bad() const;
  absl::StatusOr<Picture> DecodeAs(int format, int channels, int width, int height) const;

  std::unique_ptr<void, Close> handle_;
  std::span<const uint8_t> bytes_;
  int width_ = 0;
  int height_ = 0;
  bool inks_ = false;  // the file has cyan, magenta, yellow and black
};

// Encodes a color picture as a JPEG; `quality` is from 1 to 100.
absl::StatusOr<std::vector<uint8_t>> EncodeJpeg(const Picture& picture, int quality);

}  // namespace psgd
