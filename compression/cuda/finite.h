// Whether a gradient is one, before anything is made of it.
#pragma once

#include <bit>

#include "compression/cuda/coder.h"

namespace psgd::cuda {

// Sets *bad where any is NaN or infinite. REQUIRES: it was 0.
struct FiniteBody {
  using Shared = Nothing;
  Source source;
  uint32_t elements;
  uint32_t* bad;

  PS_HD void operator()(const Block& block, Shared&) const {
    constexpr uint32_t kExponent = 0x7F800000u;
    block.ForAll(elements, [&](size_t i) {
      const auto bits = std::bit_cast<uint32_t>(source.Gradient(i));
      if ((bits & kExponent) == kExponent) AtomicOr(bad, 1);
    });
  }
};

// Of a gradient that is not finite nothing of what is put on the queue after this is done, until
// SkipIf(nullptr).
template <typename Queue>
void SkipUnlessFinite(Queue& queue, const Source& source, uint32_t elements, uint32_t* bad) {
  queue.Zero(bad, 1);
  queue.Launch(BlocksFor(elements), FiniteBody{source, elements, bad});
  queue.SkipIf(bad);
}

}  // namespace psgd::cuda
