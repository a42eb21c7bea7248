// How long a shard needs for a payload, measured by doing the same work here (compression.push:
// auto).
#pragma once

#include <span>

#include "common/bytes.h"
#include "common/status.h"
#include "compression/codec.h"

namespace psgd {

// Unpacks and checks a payload as it came over the link, and adds its values to `weights`, as a
// shard does. Returns how many seconds that took. `planes`: see Unpack. REQUIRES: weights.size() ==
// shape.elements.
absl::StatusOr<double> SecondsToApply(const Codec& codec, const SliceShape& shape,
                                      const Bytes& came, uint32_t planes, std::span<float> weights);

}  // namespace psgd
