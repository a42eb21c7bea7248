// Checks whether a gradient is finite, before it is encoded.
#pragma once

#include <bit>

#include "compression/cuda/coder.h"

namespace psgd::cuda {

// Sets *bad to 1 if an element is NaN or infinite. REQUIRES: *bad is 0.
struct MarkNotFinite {
  Source source;
  uint32_t* bad;

  PS_HD void operator()(size_t i) const {
    constexpr uint32_t kExponent = 0x7F800000u;
    const auto bits = std::bit_cast<uint32_t>(source.Gradient(i));
    if ((bits & kExponent) == kExponent) AtomicOr(bad, 1);
  }
};

// If the gradient is not finite, the queue skips all work put on it after this call, until
// SkipIf(nullptr).
template <typename Queue>
void SkipUnlessFinite(Queue& queue, const Source& source, uint32_t elements, uint32_t* bad) {
  queue.Zero(bad, 1);
  ForAll(queue, elements, MarkNotFinite{source, bad});
  queue.SkipIf(bad);
}

}  // namespace psgd::cuda
