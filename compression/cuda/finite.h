// Checks whether a gradient is finite, before it is encoded.
#pragma once

#include <bit>

#include "compression/cuda/coder.h"

namespace psgd::cuda {

// Makes *bad `mark` if an element is NaN or infinite.
struct MarkNotFinite {
  uint64_t* bad;
  uint64_t mark;

  PS_HD void operator()(size_t, const Four& values, uint32_t count) const {
    constexpr uint32_t kExponent = 0x7F800000u;
    bool finite = true;
    for (uint32_t k = 0; k < count; ++k) {
      finite &= (std::bit_cast<uint32_t>(values.at[k]) & kExponent) != kExponent;
    }
    if (!finite) *bad = mark;
  }
};

// If the gradient is not finite, *bad becomes `mark`, and the queue skips all work put on it after
// this call, until SkipIf({}). REQUIRES: *bad is not `mark`.
template <typename Queue>
void SkipUnlessFinite(Queue& queue, Source source, uint32_t elements, uint64_t* bad,
                      uint64_t mark) {
  source.residual = nullptr;
  Map(queue, source, elements, MarkNotFinite{bad, mark});
  queue.SkipIf({bad, mark});
}

}  // namespace psgd::cuda
