// From what a pull brought to the weights that a worker computes with.
#pragma once

#include <span>

#include "common/status.h"
#include "compression/codec.h"
#include "worker/session_core.h"

namespace psgd {

// `weights` are those that were installed before, where only what is new was pulled. An error is
// that of the payload: OUT_OF_RANGE for a value that is not finite.
absl::Status InstallSlice(const CodecTable& codecs, const SliceShape& shape,
                          const PulledSlice& pulled, std::span<float> weights);

}  // namespace psgd
