// sign: the sign of each element, and one magnitude for the whole slice.
// Karimireddy, Rebjock, Stich, Jaggi: "Error feedback fixes SignSGD and other gradient compression
// schemes", ICML 2019 (its EF-SignSGD).
//
// Steps, c = gradient + residual:
//   1. bit i = (c[i] >= 0)
//   2. value = mean |c|, rounded to 8 significant bits (coarse.h)
//   3. decoded[i] = bit i ? value : -value;  residual[i] = c[i] - decoded[i]
//
// Wire, 4 + ceil(n / 8) bytes:
//   0   fp32   value, at least 0
//   4   bits   as sign_bits.h says
// 1 bit an element. No state beside the residual. Biased: it needs the residual to converge. If
// magnitudes differ much within a slice, onebit's two values a block leave a shorter residual.
#pragma once

#include "compression/kernels.h"

namespace psgd {

std::unique_ptr<Codec> MakeSign(const CodecKernels& kernels);

}  // namespace psgd
