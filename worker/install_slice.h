// From what a pull brought to the weights that a worker computes with.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "common/status.h"
#include "compression/codec.h"
#include "proto/model.pb.h"
#include "worker/pushed_factors.h"
#include "worker/session_core.h"

namespace psgd {

// `weights` are those that were installed before, where only what is new was pulled. An error is
// that of the payload: OUT_OF_RANGE for a value that is not finite.
absl::Status InstallSlice(const CodecTable& codecs, const SliceShape& shape,
                          const PulledSlice& pulled, std::span<float> weights);

// Everything that a pull brought, by slice id. `own`: the factors that this worker pushed, which
// updates leave out. `weights` gives those of a parameter, and `had` those that were installed
// before: the same memory, or other. An error names what it was about, and is otherwise as that of
// InstallSlice.
absl::Status InstallPulled(const CodecTable& codecs, const ModelSpec& model,
                           const Placement& placement, const std::vector<PulledSlice>& pulled,
                           const PushedFactors& own,
                           const std::function<std::span<const float>(int)>& had,
                           const std::function<std::span<float>(int)>& weights);

}  // namespace psgd
