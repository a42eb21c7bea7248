// none: values travel as they are.
//
// Wire, 4 * n bytes:  n x fp32
// A residual is sent along and becomes zero. No state. Every byte string of the right length with
// finite values is a valid payload.
#pragma once

#include "compression/kernels.h"

namespace psgd {

std::unique_ptr<Codec> MakeNone(const CodecKernels& kernels);

}  // namespace psgd
