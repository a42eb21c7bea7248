// Average pooling of an image of any size to a given size (PyTorch's AdaptiveAvgPool2d):
//   y[n,c,i,j] = mean of x[n,c,u,v] over floor(i H / H') <= u < ceil((i+1) H / H'), and so for v
// If H' does not divide H, windows overlap by at most one row or column. If it does, the graph has
// an ordinary average Pool instead. Backward spreads dy equally over the window.
//   x: N C H W    y: N C H' W'
#pragma once

#include <cstdint>

namespace psgd {

// x -> y
struct AdaptiveAveragePool {};

// dy -> dx
struct AdaptiveAveragePoolBackward {};

// Begin and end of window `i` of `windows` over `size` elements.
constexpr int64_t AdaptiveBegin(int64_t i, int64_t size, int64_t windows) {
  return i * size / windows;
}
constexpr int64_t AdaptiveEnd(int64_t i, int64_t size, int64_t windows) {
  return ((i + 1) * size + windows - 1) / windows;
}

}  // namespace psgd
