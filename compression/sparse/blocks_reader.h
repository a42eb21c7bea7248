// The reading side of blocks.h.
#pragma once

#include "compression/kernels.h"
#include "compression/sparse/block_norm.h"

namespace psgd {

inline constexpr int64_t kLargestSparseBlock = 1 << 20;

// Checks every byte of a payload and opens it.
absl::StatusOr<std::unique_ptr<PayloadReader>> OpenBlocks(ByteSpan payload, uint32_t elements,
                                                          const CodecKernels& kernels);

}  // namespace psgd
