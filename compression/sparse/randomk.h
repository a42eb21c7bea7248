// randomk: k = max(1, round(density * n)) elements at random.
// Stich, Cordonnier, Jaggi: "Sparsified SGD with memory", NeurIPS 2018; unbiased: Wangni, Wang,
// Liu, Zhang: "Gradient sparsification for communication-efficient distributed optimization", 2018.
//
// Steps, c = gradient (+ residual):
//   1. the slice is cut into k strata of almost equal length, and one element is drawn from
//      each (strata.h). Each element is as likely as in a draw of k of n, and the papers' bounds
//      depend on that alone. The draw is also sorted, distinct and fast
//   2. with a residual, values are sent as they are and their residual becomes 0; the residual of
//      the others is c. Without one, values are multiplied by the length of their stratum (about
//      n / k), so that the decoded slice is an unbiased estimate of c
//
// Wire, 20 + 4 * k bytes; the indices do not travel:
//   0    u32      k, at most n, at least 1 unless n is 0
//   4    u32 u32  key of the draw, low and high
//   12   u64      step of the draw
//   20   k x fp32 values, in the order of their indices
// At density 0.01: 0.32 bits an element. No state beside the residual. The residual's squared
// length is on average (1 - k / n) of c's, far more than topk leaves.
#pragma once

#include "compression/kernels.h"

namespace psgd {

StatusOrCodec MakeRandomk(const RandomkCodec& config, const CodecKernels& kernels);

}  // namespace psgd
