// y = x1 + x2 + ..., element by element, from the left; all of one shape. Each input's gradient is
// dy.
#pragma once

namespace psgd {

// x1[, x2 ...] -> y
struct Sum {};

}  // namespace psgd
