// What a worker keeps of a slice of n elements between steps, as checkpoints and journals hold it.
// Stored: do not change.
//   n fp32   the residual
// and, if the worker's encoder remembers more than that,
//   n fp32   what it remembers
//   u32      Codec::memory() of the encoder's codec, not 0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "common/bytes.h"

namespace psgd {

// A view of a saved state. The view is not aligned.
struct SavedState {
  ByteSpan residual;
  ByteSpan remembered;  // empty: nothing is remembered
  uint32_t memory = 0;  // 0: nothing is remembered
};

// Returns nothing if `saved` is not a state of that many elements.
std::optional<SavedState> ReadSavedState(ByteSpan saved, uint64_t elements);

// Makes a state of the residual and the remembered array behind it; memory 0: of the residual only.
Bytes MakeSavedState(std::span<const float> arrays, uint32_t memory);

}  // namespace psgd
