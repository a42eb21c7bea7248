// y = max(x, 0); dx = dy where y > 0, else 0    x, y: any one shape, in the layout that x lies in
#pragma once

namespace psgd {

// x -> y
struct Relu {};

// y, dy -> dx
struct ReluBackward {};

}  // namespace psgd
