// Weighted sums of a table's rows, that is a sparse sample times a matrix:
//   y[n, d] = sum over f of value[n, f] w[index[n, f], d]
// An entry whose value is zero adds nothing. The gradient is dense, added in the order of entries:
//   dw[v, d] = sum of value[n, f] dy[n, d] over the entries whose index is v
// Values have no gradient.
//   index: N F, int32, from 0 to V - 1    value: N F    w: V D    y: N D
#pragma once

namespace psgd {

// index, value, w -> y
struct EmbeddingBag {};

// index, value, dy -> dw
struct EmbeddingBagBackward {};

}  // namespace psgd
