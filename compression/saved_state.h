// What a worker keeps of a slice of n elements between steps, as checkpoints and journals hold it.
// Stored: do not change.
//   n fp32   the residual
// and, where the worker's encoder remembers more than that,
//   n fp32   what it remembers
//   u32      of what codec: Codec::memory(), not 0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "common/bytes.h"

namespace psgd {

// A view of one; it is not aligned.
struct SavedState {
  ByteSpan residual;
  ByteSpan remembered;  // empty: nothing
  uint32_t memory = 0;  // likewise 0
};

// Nothing: it is no state of so many elements.
std::optional<SavedState> ReadSavedState(ByteSpan saved, uint64_t elements);

// Of the residual and behind it what is remembered; memory 0: of the residual alone.
Bytes MakeSavedState(std::span<const float> arrays, uint32_t memory);

}  // namespace psgd
