// Copies a payload to pinned memory of the host, in the same launches as its slice's codec.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/cuda/block.h"

namespace psgd::cuda {

// The header of each payload, in memory.
struct alignas(16) PayloadHead {
  uint64_t bytes;  // set only if the length varies
  uint32_t bad;    // not 0: the gradient is not finite, and the payload is nothing
  uint32_t unused;
};

// REQUIRES: both are aligned to 16 bytes, with room for whole pieces of 16 bytes.
struct CopyOutBody {
  using Shared = Nothing;
  const PayloadHead* from;
  PayloadHead* to;
  size_t bound;  // bytes behind the head
  bool varies;

  PS_HD void operator()(const Block& block, Shared&) const {
    const PayloadHead head = *from;
    size_t bytes = head.bad != 0 ? 0 : bound;
    if (varies && head.bytes < bytes) bytes = head.bytes;
    block.ForAll(1 + (bytes + sizeof *from - 1) / sizeof *from, [&](size_t i) { to[i] = from[i]; });
  }
};

}  // namespace psgd::cuda
