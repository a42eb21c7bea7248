// Which codecs have a twin on a device, and what the twin needs to know.
#pragma once

#include <optional>

#include "compression/codec.h"
#include "compression/cuda/options.h"
#include "compression/error_feedback.h"

namespace psgd {

// Returns the options for a slice that MakeCodec's codec of that config would encode; nothing if
// the codec has no twin on a device. REQUIRES: MakeCodec accepts the config.
std::optional<TwinOptions> MakeTwinOptions(const CodecConfig& config, const Codec& codec,
                                           const SliceShape& shape,
                                           const ErrorFeedbackOptions& feedback,
                                           const CodecOptions& options = {});

}  // namespace psgd
