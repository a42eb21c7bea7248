// ternary: -s, 0 or +s for each element, drawn at random.
// Wen, Xu, Yan, Wu, Wang, Chen, Li: "TernGrad: ternary gradients to reduce communication in
// distributed deep learning", NeurIPS 2017.
//
// Steps, for the whole slice, c = gradient (+ residual):
//   1. limit = min(max |c|, clip * sqrt(mean c^2)), or max |c| for clip 0, rounded up to 8
//      significant bits
//   2. element i is drawn with probability min(1, |c[i]| / limit): if u * limit < |c[i]|, where u
//      = UnitFloat(word i % 4 of Philox(key, i / 4, step)); i counts within the slice
//   3. a drawn element is sent as its sign, the others as 0
//   4. value: without a residual, limit; then the decoded slice is an unbiased estimate of c
//      clipped to +-limit, as in the paper. With a residual, the mean magnitude of the drawn
//      elements, rounded to 8 significant bits (coarse.h): the least-squares value for the signs
//      drawn.
//   5. decoded[i] = trit * value;  residual[i] = c[i] - decoded[i]
// Step 4 differs from the paper because a codec must contract under error feedback. The unbiased
// value does not: its error is as long as c itself for Gaussian c and clip 2.5, so residuals pile
// up. With the fitted value a residual is never longer than c, and typically 0.7 of it.
//
// Wire, 4 + 64 * floor(n / 320) + ceil((n mod 320) / 5) bytes:
//   0   fp32    value >= 0
//   4   digits  five elements a byte, laid out as ternary_value.h says; each byte at most 242
// 1.6 bits an element. No state beside the residual.
#pragma once

#include "compression/kernels.h"

namespace psgd {

StatusOrCodec MakeTernary(const TernaryCodec& config, const CodecKernels& kernels);

}  // namespace psgd
