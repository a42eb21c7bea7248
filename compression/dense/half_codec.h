// What codecs that send every element as a number of 16 bits share.
//
// Wire, 2 * n bytes: n numbers, little-endian. Every byte string of the right length whose values
// are finite is a payload.
#pragma once

#include "compression/kernels.h"

namespace psgd {

// `name` must be a literal; `kernels` must outlive the codec.
std::unique_ptr<Codec> MakeHalfCodec(CodecId id, absl::string_view name,
                                     const HalfKernels& kernels);

// Checks n such numbers and opens them. `name` is for messages.
absl::StatusOr<std::unique_ptr<PayloadReader>> OpenHalves(ByteSpan halves, uint32_t elements,
                                                          absl::string_view name,
                                                          const HalfKernels& kernels);

}  // namespace psgd
