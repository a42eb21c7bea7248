// onebit: the sign of each element and two values a block.
// Seide, Fu, Droppo, Li, Yu: "1-bit stochastic gradient descent and its application to
// data-parallel distributed training of speech DNNs", Interspeech 2014.
//
// Steps, for each block of `block` elements of c = gradient + residual:
//   1. bit i = (c[i] >= 0)
//   2. high = mean of the c[i] >= 0, low = mean of the others (0 where there are none), each
//      rounded to 8 significant bits (coarse.h)
//   3. decoded[i] = bit i ? high : low;  residual[i] = c[i] - decoded[i]
// The means are the least-squares values for the signs, so a residual is never longer than c.
//
// Wire, 4 + 4 * B + ceil(n / 8) bytes for B = ceil(n / block) blocks:
//   0        u32     block: elements that share two values, a multiple of 64 in [64, 1 Mi]
//   4        B x {u16 high, u16 low}    upper halves of fp32 values, high >= 0 >= low
//   4 + 4B   bits    element i is bit i % 8 of byte i / 8; bits beyond n are 0
// With the default block of 128: 1.25 bits an element. No state beside the residual. Biased:
// without a residual it does not converge to the optimum.
#pragma once

#include "compression/kernels.h"

namespace psgd {

inline constexpr uint32_t kOnebitBlockUnit = 64;
inline constexpr uint32_t kLargestOnebitBlock = 1u << 20;

StatusOrCodec MakeOnebit(const OnebitCodec& config, const CodecKernels& kernels);

}  // namespace psgd
