// A constant around a tensor, on any of its axes:
//   y[i1, i2, ...] = x[i1 - before1, i2 - before2, ...], and `value` where that is outside x
// How much follows x is in the shape of y. The gradient is what lies over x: a Slice an axis.
#pragma once

#include "engine/graph/shape.h"

namespace psgd {

// x -> y
struct Pad {
  Shape before;  // one number an axis, not negative
  float value = 0;
};

}  // namespace psgd
