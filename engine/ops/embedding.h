// Rows of a table by index: y[..., d] = w[index[...], d]
// The gradient is dense: dw[v, d] = sum of dy[..., d] over the places whose index is v, added in
// the order of the places. It is zero in unused rows.
//   index: any shape, int32, from 0 to V - 1    w: V D    y: that shape, then D
#pragma once

namespace psgd {

// index, w -> y
struct Embedding {};

// index, dy -> dw
struct EmbeddingBackward {};

}  // namespace psgd
