// y = x1 + x2 + ..., element by element, from the left. Each input's gradient is dy.
//   x1, x2, ..., y: any one shape, in the layout that x1 lies in
#pragma once

namespace psgd {

// x1[, x2 ...] -> y
struct Sum {};

}  // namespace psgd
