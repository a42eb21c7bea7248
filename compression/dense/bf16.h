// bf16: the upper half of fp32, rounded to nearest, ties to even. The range is that of fp32, except
// that what would round to infinity is sent as the largest finite number, 3.39e38.
// Wang, Kanwar: "BFloat16: the secret to high performance on Cloud TPUs", Google, 2019.
//
// Wire, 2 * n bytes:  n x bfloat16
// The residual keeps the rounding error. No state. bf16 has eight significant bits where fp16 has
// eleven, but no gradient is too small for it.
#pragma once

#include "compression/kernels.h"

namespace psgd {

std::unique_ptr<Codec> MakeBf16(const CodecKernels& kernels);

}  // namespace psgd
