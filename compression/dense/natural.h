// natural: each element becomes one of the two powers of two around it, at random.
// Horvath, Ho, Horvath, Sahu, Canini, Richtarik: "Natural compression for distributed deep
// learning", 2019.
//
// Steps, c = gradient (+ residual), 2^e <= |c[i]| < 2^(e + 1):
//   1. |c[i]| goes to 2^(e + 1) with probability |c[i]| / 2^e - 1, else to 2^e: the fraction of the
//      float plus 23 random bits carries into the exponent, or does not. The bits are the low ones
//      of word i % 4 of Philox(key, i / 4, step). Subnormal numbers go to 0 or 2^-126 likewise.
//   2. decoded[i] = that power of two, with the sign of c[i];  residual[i] = c[i] - decoded[i]
//
// Wire, n + ceil(n / 8) bytes:
//   0   n x u8   exponents of fp32, biased as there, at most 254; 0 stands for zero
//   n   bits     element i is bit i % 8 of byte i / 8, 1 for a negative one; bits beyond n are 0
// 9 bits an element. No state beside the residual. Unbiased (up to 2^127, where it saturates), with
// a variance of at most c^2 / 8. So the residual is shorter than c, and error feedback converges.
#pragma once

#include "compression/dense/natural_value.h"
#include "compression/kernels.h"

namespace psgd {

std::unique_ptr<Codec> MakeNatural(const CodecKernels& kernels);

}  // namespace psgd
