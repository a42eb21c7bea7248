// fp16: IEEE binary16, round to nearest, ties to even. Values beyond +-65504 are sent as +-65504.
//
// Wire, 2 * n bytes:  n x binary16
// The residual keeps the error of rounding and saturation. No state. Every byte string of the right
// length with finite values is a valid payload.
#pragma once

#include "compression/kernels.h"

namespace psgd {

std::unique_ptr<Codec> MakeFp16(const CodecKernels& kernels);

}  // namespace psgd
