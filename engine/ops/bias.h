// Adds a value to each channel: y[n,c,...] = x[n,c,...] + b[c]; dx = dy, db[c] = sum of
// dy[:,c,...]. For layers whose kernels have no bias. Convolutions and dense layers have their own.
//   x, y: N C ...    b: C
#pragma once

namespace psgd {

// x, b -> y
struct Bias {};

// dy -> db
struct BiasBackward {};

}  // namespace psgd
