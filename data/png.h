// PNG, by libpng. Only the .cc includes its header.
#pragma once

#include <cstdint>
#include <span>

#include "common/status.h"
#include "data/picture.h"

namespace psgd {

// Whether the bytes begin as a PNG does.
bool IsPng(std::span<const uint8_t> bytes);

// Reads one PNG of any kind. Open reads the size, Decode the pixels. Thread-safe: immutable.
class PngReader {
 public:
  // DataLoss: not a PNG, damaged, or too large. REQUIRES: the bytes outlive the reader.
  static absl::StatusOr<PngReader> Open(std::span<const uint8_t> bytes);

  int width() const { return width_; }
  int height() const { return height_; }

  // Decodes the image in red, green and blue. Grey becomes three equal colors, 16 bits are rounded
  // to 8, and alpha is left out: what the file says below transparent pixels is what a sample has.
  // Each side is divided by `shrink` (1, 2, 4 or 8) and rounded up; pixels are means. Any damage,
  // truncation included, is DataLoss.
  absl::StatusOr<Picture> Decode(int shrink) const;

  // Decodes the values of a grey image, or the places in the palette: one byte a pixel. DataLoss:
  // damaged, or of another kind.
  absl::StatusOr<Picture> DecodeValues() const;

 private:
  explicit PngReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  std::span<const uint8_t> bytes_;
  int width_ = 0;
  int height_ = 0;
};

}  // namespace psgd
