// Keeps the `count` elements of largest magnitude of each row and sets the others to zero. Among
// equal elements the first are kept. NaN counts as infinite. Sun, Ren, Ma, Wang: "meProp:
// sparsified back propagation for accelerated deep learning with reduced overfitting", ICML 2017.
//   x, y: N O, of more than `count` columns
#pragma once

#include <cstdint>

namespace psgd {

// x -> y
struct KeepLargest {
  int64_t count = 0;
};

}  // namespace psgd
