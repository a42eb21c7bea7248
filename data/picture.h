// A decoded image of any size, before it becomes a sample.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace psgd {

// The most pixels of a picture in a file, and its longest side. Larger pictures are refused before
// memory is allocated for them.
inline constexpr int64_t kMostPixels = int64_t{1} << 27;
inline constexpr int kMostPictureSide = 65535;

// Rows of pixels. A pixel has `channels` bytes: three for red, green and blue, or one.
struct Picture {
  Picture() = default;
  // Leaves the pixels uninitialized.
  Picture(int width, int height, int channels)
      : width(width),
        height(height),
        channels(channels),
        pixels(std::make_unique_for_overwrite<uint8_t[]>(bytes())) {}

  size_t row_bytes() const { return static_cast<size_t>(width) * static_cast<size_t>(channels); }
  size_t bytes() const { return row_bytes() * static_cast<size_t>(height); }
  const uint8_t* row(int y) const { return pixels.get() + static_cast<size_t>(y) * row_bytes(); }

  int width = 0;
  int height = 0;
  int channels = 0;
  std::unique_ptr<uint8_t[]> pixels;
};

}  // namespace psgd
