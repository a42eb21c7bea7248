// Adds the same values to every row: y[n, s] = x[n, s] + b[s]. s runs over the last axes of x,
// which are the axes of b; n runs over the others. dx = dy; db[s] = sum over n of dy[n, s].
//   x, y: ... S    b: S, of any rank up to that of x
#pragma once

namespace psgd {

// x, b -> y
struct RowBias {};

// dy -> db
struct RowBiasBackward {};

}  // namespace psgd
