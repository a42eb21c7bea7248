// Joins tensors along one axis (images: 1, the channels); all other sizes are equal. The gradient
// of each input is a Slice of dy.    x1: N A ..., x2: N B ...    y: N A+B ...
#pragma once

namespace psgd {

// x1[, x2 ...] -> y
struct Concat {
  int axis = 1;
};

}  // namespace psgd
