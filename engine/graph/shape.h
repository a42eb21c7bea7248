// Shapes of tensors and windows over images.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"

namespace psgd {

using Shape = std::vector<int64_t>;

int64_t ElementCount(const Shape& shape);
// Some size is below 1, or there are more than 2^31 elements, counted without overflow.
bool TooLarge(const Shape& shape);
// As "64x20x24x24".
std::string ShapeText(const Shape& shape);

// A height and a width; one number stands for both.
struct Extent {
  constexpr Extent(int both) : height(both), width(both) {}  // NOLINT: 5 reads as 5x5
  constexpr Extent(int height, int width) : height(height), width(width) {}
  bool operator==(const Extent&) const = default;

  int height;
  int width;
};

// How a kernel slides over an image.
struct Window {
  Extent kernel = 1;
  Extent stride = 1;
  Extent pad = 0;  // on each side
  Extent dilation = 1;
};

// Height and width of what the window makes of a height x width image:
// (size + 2 pad - dilation (kernel - 1) - 1) / stride + 1. An error when the kernel does not fit.
absl::StatusOr<Extent> SlideOver(const Window& window, int64_t height, int64_t width);

}  // namespace psgd
