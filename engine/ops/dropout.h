// Dropout: y = x / (1 - rate) where the mask is 1, else 0. The mask is counter-based: element i of
// step s is kept when word i % 4 of Philox(key(seed, worker, layer), i / 4, s), as a number in
// [0, 1), is at least `rate`; i counts in row-major order. dx = dy / (1 - rate) where kept, else 0.
// Evaluation omits the op.    x, y: any one shape; the backend chooses the mask's layout.
#pragma once

#include <cstdint>
#include <span>

#include "common/philox.h"

namespace psgd {

// x -> y, mask (opaque)
struct Dropout {
  float rate = 0.5f;
  uint32_t layer = 0;  // number of this dropout in the network
};

// dy, mask -> dx
struct DropoutBackward {
  float rate = 0.5f;
};

// The key of the masks. The same seed, worker and step give the same masks on every backend.
struct DropoutSource {
  uint64_t seed = 1;
  uint32_t worker = 0;
};

PhiloxKey DropoutKey(const Dropout& dropout, const DropoutSource& source);

// Fills `mask` with 1 (kept) and 0.
void DrawDropoutMask(const Dropout& dropout, const DropoutSource& source, uint64_t step,
                     std::span<uint8_t> mask);

}  // namespace psgd
