// y = max(x, 0), element by element; dx = dy where y > 0, else 0.
#pragma once

namespace psgd {

// x -> y
struct Relu {};

// y, dy -> dx
struct ReluBackward {};

}  // namespace psgd
