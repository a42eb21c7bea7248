// A part of a picture at another size.
#pragma once

#include <cstdint>
#include <span>

#include "data/picture.h"
#include "data/view.h"

namespace psgd {

// How far a picture may be shrunk while it is decoded, so that a window of it still has at least
// `size` pixels a side: 1, 2, 4 or 8.
int ShrinkFor(const Window& window, int size);

// `view` of a picture, of which `shrunk` has 1/shrink of the pixels a side, as size x size pixels
// in [0, 1], channel by channel. Bilinear, with pixels at the centres of their squares.
// REQUIRES: planes.size() == channels x size x size.
void ResampleColours(const Picture& shrunk, int shrink, const View& view, int size,
                     std::span<float> planes);

// `view` of a picture of one channel as size x size values, each that of the nearest pixel.
void ResampleNearest(const Picture& picture, const View& view, int size, std::span<int32_t> values);

}  // namespace psgd
