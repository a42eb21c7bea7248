// Puts a constant around a tensor, on any of its axes:
//   y[i1, i2, ...] = x[i1 - before1, i2 - before2, ...], and `value` outside x
// The shape of y determines how many elements follow x. The gradient is a Slice of dy an axis.
#pragma once

#include "engine/graph/shape.h"

namespace psgd {

// x -> y
struct Pad {
  Shape before;  // one number an axis, not negative
  float value = 0;
};

}  // namespace psgd
