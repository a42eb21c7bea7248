// Which codecs have a twin on a device, and what it has to know.
#pragma once

#include <optional>

#include "compression/codec.h"
#include "compression/cuda/options.h"
#include "compression/error_feedback.h"

namespace psgd {

// For a slice that MakeCodec's codec of that config would encode; none where that has no twin on a
// device. REQUIRES: MakeCodec takes the config.
std::optional<TwinOptions> MakeTwinOptions(const CodecConfig& config, const Codec& codec,
                                           const SliceShape& shape,
                                           const ErrorFeedbackOptions& feedback,
                                           const CodecOptions& options = {});

}  // namespace psgd
