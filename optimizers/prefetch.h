// Entries of a sparse update lie too far apart for the CPU's prefetcher. Without a hint each entry
// waits for memory.
#pragma once

#include <cstddef>

#include "optimizers/optimizer.h"

namespace psgd {

// Prefetches the memory that an entry after the i-th will need.
inline void PrefetchEntry(const SparseUpdate& update, size_t i, int states) {
  constexpr size_t kAhead = 16;
  if (i + kAhead >= update.indices.size()) return;
  const uint32_t at = update.indices[i + kAhead];
  __builtin_prefetch(update.weights + at, 1);
  for (int s = 0; s < states; ++s) __builtin_prefetch(update.states[s] + at, 1);
}

}  // namespace psgd
