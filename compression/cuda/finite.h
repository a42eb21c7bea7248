// Checks whether a gradient is finite, before it is encoded.
#pragma once

#include <bit>

#include "compression/cuda/coder.h"

namespace psgd::cuda {

// Sets *bad to 1 if an element is NaN or infinite. REQUIRES: *bad is 0.
struct MarkNotFinite {
  Source source;
  uint32_t* bad;

  PS_HD float Read(size_t i) const { return source.Gradient(i); }
  PS_HD void Write(size_t, float value) const {
    constexpr uint32_t kExponent = 0x7F800000u;
    if ((std::bit_cast<uint32_t>(value) & kExponent) == kExponent) AtomicOr(bad, 1);
  }
};

// If the gradient is not finite, the queue skips all work put on it after this call, until
// SkipIf(nullptr).
template <typename Queue>
void SkipUnlessFinite(Queue& queue, const Source& source, uint32_t elements, uint32_t* bad) {
  queue.Zero(bad, 1);
  Map(queue, elements, MarkNotFinite{source, bad});
  queue.SkipIf(bad);
}

}  // namespace psgd::cuda
