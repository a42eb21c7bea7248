// A part of a picture at another size.
#pragma once

#include <cstdint>
#include <span>

#include "data/picture.h"
#include "data/view.h"

namespace psgd {

// Returns how much a picture may shrink while it is decoded (1, 2, 4 or 8), so that the window
// still has at least `size` pixels a side.
int ShrinkFor(const Window& window, int size);

// Divides each side by `factor`, rounded up. A pixel is the mean of factor x factor ones, of fewer
// at the edges.
Picture Shrink(const Picture& picture, int factor);

// Resamples `view` of a picture to size x size pixels in [0, 1], channel by channel. `shrunk` is
// the picture with 1/shrink of its pixels a side. Bilinear, with pixels at the centers of their
// squares. REQUIRES: planes.size() == channels x size x size.
void ResampleColours(const Picture& shrunk, int shrink, const View& view, int size,
                     std::span<float> planes);

// Resamples `view` of a picture of one channel to size x size values, each of the nearest pixel.
void ResampleNearest(const Picture& picture, const View& view, int size, std::span<int32_t> values);

}  // namespace psgd
