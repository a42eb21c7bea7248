// A value a channel, added: y[n,c,...] = x[n,c,...] + b[c]; dx = dy, db[c] = sum of dy[:,c,...].
// Convolutions and dense layers have a bias of their own; this is for layers whose kernels have
// none.
//   x, y: N C ...    b: C
#pragma once

namespace psgd {

// x, b -> y
struct Bias {};

// dy -> db
struct BiasBackward {};

}  // namespace psgd
