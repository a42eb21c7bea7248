// y = max(x, 0); dx = dy where y > 0, else 0    x, y: any one shape, in x's layout
#pragma once

namespace psgd {

// x -> y
struct Relu {};

// y, dy -> dx
struct ReluBackward {};

}  // namespace psgd
