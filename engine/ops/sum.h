// y = x1 + x2 + ..., element by element, in any fixed order. Each input's gradient is dy.
//   x1, x2, ..., y: any one shape, in x1's layout
#pragma once

namespace psgd {

// x1[, x2 ...] -> y
struct Sum {};

}  // namespace psgd
