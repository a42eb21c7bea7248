// int8: levels of 8 bits, as quantized.h says, with s = 127 and the largest magnitude as the norm.
// Gupta, Agrawal, Gopalakrishnan, Narayanan: "Deep learning with limited numerical precision",
// ICML 2015 (stochastic rounding); Dettmers: "8-bit approximations for parallelism in deep
// learning", ICLR 2016 (a scale for each block).
//
// Wire, 4 + 2 * B + n bytes for B = ceil(n / block) blocks:
//   0        u32     block: elements that share a unit, a multiple of 64 in [64, 1 Mi]
//   4        B x u16 units: upper halves of fp32 values, at least 0; 127 units are finite
//   4 + 2B   n x i8  levels, -127 to 127
// With the default block of 1024: 8.016 bits an element. No state beside the residual. Unbiased
// with stochastic rounding. For blocks of at most 127015 elements the residual is shorter than c on
// average, so error feedback converges (see qsgd.h).
#pragma once

#include "compression/kernels.h"

namespace psgd {

StatusOrCodec MakeInt8(const Int8Codec& config, const CodecKernels& kernels);

}  // namespace psgd
