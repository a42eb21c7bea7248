// Average pooling to a given size, whatever the image's (PyTorch's AdaptiveAvgPool2d):
//   y[n,c,i,j] = mean of x[n,c,u,v] over floor(i H / H') <= u < ceil((i+1) H / H'), and so for v
// Windows overlap by at most one row or column where H' does not divide H; where it does, the op is
// an ordinary average Pool, and the graph has that instead. Backward: dy in equal parts to the
// window.
//   x: N C H W    y: N C H' W'
#pragma once

#include <cstdint>

namespace psgd {

// x -> y
struct AdaptiveAveragePool {};

// dy -> dx
struct AdaptiveAveragePoolBackward {};

// Where window `i` of `windows` over `size` elements begins, and the end of it.
constexpr int64_t AdaptiveBegin(int64_t i, int64_t size, int64_t windows) {
  return i * size / windows;
}
constexpr int64_t AdaptiveEnd(int64_t i, int64_t size, int64_t windows) {
  return ((i + 1) * size + windows - 1) / windows;
}
// The first and the last window that reach element `at`: those that end behind it, and those that
// do not begin behind it.
constexpr int64_t AdaptiveFirst(int64_t at, int64_t size, int64_t windows) {
  return at * windows / size;
}
constexpr int64_t AdaptiveLast(int64_t at, int64_t size, int64_t windows) {
  return ((at + 1) * windows - 1) / size;
}

}  // namespace psgd
