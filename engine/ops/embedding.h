// Rows of a table by index: y[..., d] = w[index[...], d]
// With values, weighted sums of rows, that is a sparse sample times a matrix:
//   y[n, d] = sum over f of value[n, f] w[index[n, f], d]
// An entry whose value is zero adds nothing. The gradient is dense: dw[v, d] = sum of dy[..., d]
// (times the value) over the places whose index is v, added in the order of the places. It is zero
// in unused rows. Values have no gradient.
//   index: any shape (N F with values), int32, from 0 to V - 1    value: N F    w: V D
//   y: the index's shape, then D (N D with values)
#pragma once

namespace psgd {

// index, w[, value] -> y
struct Embedding {};

// index, dy[, value] -> dw
struct EmbeddingBackward {};

}  // namespace psgd
