// topk: the k = max(1, round(density * n)) elements of largest magnitude, exactly.
// Aji, Heafield: "Sparse communication for distributed gradient descent", EMNLP 2017.
// Lin, Han, Mao, Wang, Dally: "Deep gradient compression", ICLR 2018 (which samples a threshold;
// here the sample only narrows the search, the selection is exact).
//
// Steps, c = gradient + residual:
//   1. a sample of c guesses a magnitude that a little more than k elements reach
//   2. one pass gathers the elements that reach it; where the guess was off, all are searched
//   3. the k largest of them, the lower index first among equals, are sent; their residual becomes
//      0, the others' is c
//
// Wire, 8 + 4 * k + ceil(bits / 8) bytes:
//   0        u32      k <= n
//   4        u32      low_bits of the Rice codes, <= 31; 0 when k is 0
//   8        k x fp32 values, in the order of their indices
//   8 + 4k   bits     the indices, strictly ascending, as rice.h says; bits beyond the last are 0
// At density 0.01: 0.4 bits an element, 8.2 of a sent element's 40 for its index. State: the
// residual, and buffers that a step leaves for the next. Biased: it needs a residual to converge.
#pragma once

#include "compression/kernels.h"

namespace psgd {

absl::StatusOr<std::unique_ptr<Codec>> MakeTopk(const TopkCodec& config,
                                                const CodecKernels& kernels);

}  // namespace psgd
