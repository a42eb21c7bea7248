// Labelled images by index: what every format becomes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace psgd {

// One sample, and how many labels there are.
struct SampleShape {
  int channels = 0;
  int height = 0;
  int width = 0;
  int classes = 0;

  size_t elements() const {
    return static_cast<size_t>(channels) * static_cast<size_t>(height) * static_cast<size_t>(width);
  }
  bool SameImage(const SampleShape& other) const {
    return channels == other.channels && height == other.height && width == other.width;
  }
  // For people: "1x28x28".
  std::string ImageText() const {
    return std::to_string(channels) + "x" + std::to_string(height) + "x" + std::to_string(width);
  }
};

// Thread-safe: any number of threads may read at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual size_t size() const = 0;
  virtual SampleShape shape() const = 0;
  // Pixels in [0, 1], channel by channel, row by row; a label below shape().classes.
  // REQUIRES: index < size(); pixels.size() == shape().elements().
  virtual void Read(size_t index, std::span<float> pixels, int32_t* label) const = 0;
};

}  // namespace psgd
