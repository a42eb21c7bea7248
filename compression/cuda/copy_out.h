// Copies a payload to pinned memory of the host.
#pragma once

#include <cstddef>
#include <cstdint>

#include <span>
#include <vector>

#include "compression/cuda/fused.h"

namespace psgd::cuda {

// The header of each payload, in memory.
struct alignas(16) PayloadHead {
  uint64_t bytes;  // set only if the length varies
  uint64_t bad;    // the last step whose gradient was not finite: it has no payload
};

// REQUIRES: both are aligned to 16 bytes, with room for whole pieces of 16 bytes.
struct CopyOutBody {
  using Shared = Nothing;
  const PayloadHead* from;
  PayloadHead* to;
  size_t bound;  // bytes behind the head
  bool varies;
  uint64_t step;  // as PayloadHead::bad counts

  // Few, because the copy is bound by the way to the host.
  uint32_t blocks() const {
    constexpr uint32_t kMost = 16;
    const uint32_t blocks = BlocksFor(1 + bound / sizeof(PayloadHead));
    return blocks < kMost ? blocks : kMost;
  }

  PS_HD void operator()(const Block& block, Shared&) const {
    const PayloadHead head = *from;
    size_t bytes = head.bad == step ? 0 : bound;
    if (varies && head.bytes < bytes) bytes = head.bytes;
    block.ForAll(1 + (bytes + sizeof *from - 1) / sizeof *from, [&](size_t i) { to[i] = from[i]; });
  }
};

// Makes copies with threads of the device. For the Runner see launch_queue.h.
template <typename Runner>
void CopyOut(Runner& runner, std::span<const CopyOutBody> copies) {
  std::vector<Part> parts;
  for (const CopyOutBody& copy : copies) parts.push_back({&copy, copy.blocks(), {}});
  Runner::template Run<CopyOutBody>(runner, parts);
}

}  // namespace psgd::cuda
