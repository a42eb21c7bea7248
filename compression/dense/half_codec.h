// Shared by codecs that send every element as a number of 16 bits.
//
// Wire, 2 * n bytes: n numbers, little-endian. Every byte string of the right length with finite
// values is a valid payload.
#pragma once

#include "compression/kernels.h"

namespace psgd {

// Checks n such numbers and opens them. `name` is for messages.
StatusOrReader OpenHalves(ByteSpan halves, uint32_t elements, absl::string_view name,
                          const HalfKernels& kernels);

}  // namespace psgd
