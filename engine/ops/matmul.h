// Products of matrices, one for each index of the leading axes: y = s A B. A is a or its transpose,
// B is b or its transpose. The gradients are MatMul, too. The scale s comes before y is rounded, so
// a product may be too large for fp16 where y is not.
//   a: ... M K, transposed ... K M    b: ... K N, transposed ... N K    y: ... M N
#pragma once

namespace psgd {

// a, b -> y
struct MatMul {
  bool transpose_a = false;
  bool transpose_b = false;
  float scale = 1;
};

}  // namespace psgd
