// What a shard will spend on a payload, found by doing the same here (compression.push: auto).
#pragma once

#include <span>

#include "common/bytes.h"
#include "common/status.h"
#include "compression/codec.h"

namespace psgd {

// Checks the payload and adds its values to `weights`, as a shard does; returns the seconds it took.
// REQUIRES: weights.size() == shape.elements.
absl::StatusOr<double> SecondsToApply(const Codec& codec, const SliceShape& shape, ByteSpan payload,
                                      std::span<float> weights);

}  // namespace psgd
