// What a shard will spend on a payload, found by doing the same here (compression.push: auto).
#pragma once

#include <span>

#include "common/bytes.h"
#include "common/status.h"
#include "compression/codec.h"

namespace psgd {

// Unpacks and checks what travels of a payload and adds its values to `weights`, as a shard does;
// returns the seconds it took. `planes`: see Unpack. REQUIRES: weights.size() == shape.elements.
absl::StatusOr<double> SecondsToApply(const Codec& codec, const SliceShape& shape,
                                      const Bytes& came, uint32_t planes, std::span<float> weights);

}  // namespace psgd
