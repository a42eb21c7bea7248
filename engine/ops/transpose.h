// Reorders axes: axis i of y is axis permutation[i] of x, so with (0, 2, 1, 3)
//   y[b, h, t, d] = x[b, t, h, d].
// The gradient is the inverse Transpose.
#pragma once

#include <vector>

namespace psgd {

// x -> y
struct Transpose {
  std::vector<int> permutation;
};

}  // namespace psgd
