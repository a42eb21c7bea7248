// A contiguous range of one axis: y[..., i, ...] = x[..., begin + i, ...]. The shape of y
// determines its end. The gradient is dy padded with zeros (Pad).    x: ... A ...    y: ... B ...
#pragma once

#include <cstdint>

namespace psgd {

// x -> y
struct Slice {
  int axis = 1;
  int64_t begin = 0;
};

}  // namespace psgd
