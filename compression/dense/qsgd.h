// qsgd: levels of 2 to 8 bits, as quantized.h says, with s = 2^(bits - 1) - 1.
// Alistarh, Grubic, Li, Tomioka, Vojnovic: "QSGD: communication-efficient SGD via gradient
// quantization and encoding", NeurIPS 2017 (the L2 norm, buckets, s levels; here without its
// Elias codes; the largest magnitude as the norm is the variant of their experiments).
//
// Wire, 8 + 2 * B + 2 * bits * ceil(n / 16) bytes for B = ceil(n / block) blocks:
//   0        u32     block: elements that share a unit, a multiple of 64 in [64, 1 Mi]
//   4        u32     bits, 2 to 8
//   8        B x u16 units: upper halves of fp32 values, at least 0; s units are finite
//   8 + 2B   codes   a code is level + s, so all ones never occurs. Elements go in groups of 16;
//                    a group is `bits` words of 16 bits, bit i of word p is bit p of the code of
//                    the group's element i; bits beyond the last element are 0
// At 4 bits and the default block of 128: 4.125 bits an element. No state beside the residual.
// Unbiased with stochastic rounding. The squared error is |c[i]| (unit - |c[i]|) if |c[i]| is below
// the unit, else less than c[i]^2 / 4. Take a block of B elements: the largest is M, the others are
// t. If B > 8 s^2, some t makes the error longer than c (with unit = M / s, if 2 B t^2 - B t M / s
// + M^2 < 0). Residuals could then grow without end. So a config with error feedback must have
// blocks of at most 63/8 s^2 elements (385 at 4 bits, 70 at 3, none at 2), or round to nearest,
// whose error is never longer than c. With the L2 norm the error is larger, and rounding to nearest
// may never send anything. So the L2 norm needs error feedback off.
#pragma once

#include "compression/kernels.h"

namespace psgd {

StatusOrCodec MakeQsgd(const QsgdCodec& config, const CodecKernels& kernels);

}  // namespace psgd
