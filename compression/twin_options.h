// What a codec's twin on a device needs to know.
#pragma once

#include <optional>

#include "compression/codec.h"
#include "compression/error_feedback.h"

namespace psgd {

// Returns the options for a slice that the codec would encode; nothing if the codec has no twin on
// a device.
std::optional<TwinOptions> MakeTwinOptions(const Codec& codec, const SliceShape& shape,
                                           const ErrorFeedbackOptions& feedback);

}  // namespace psgd
