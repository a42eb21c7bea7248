// Scaled dot-product attention (Vaswani et al., 2017), made of MatMul and Softmax nodes:
//   y = softmax(q k^T / sqrt(D)) v for each sample and head
// The product q k^T is scaled before it is stored: unscaled it may be too large for fp16.
// With `causal` a query sees the keys up to its own place. `lengths`, if given, is the number of
// keys before the padding, by sample. softmax.h defines both masks.
//   q: N H T D    k: N H S D    v: N H S E    lengths: N, int32    y: N H T E
#pragma once

namespace psgd {

struct Attention {
  bool causal = false;
};

}  // namespace psgd
