#include "compression/twin_options.h"

namespace psgd {

std::optional<TwinOptions> MakeTwinOptions(const Codec& codec, const SliceShape& shape,
                                           const ErrorFeedbackOptions& feedback) {
  const std::optional<TwinCodec> twin = codec.Twin(shape);
  if (!twin) return std::nullopt;
  return TwinOptions{.codec = *twin,
                     .elements = shape.elements,
                     .state_arrays = codec.state_arrays(),
                     .keeps_residual = feedback.accumulate && codec.keeps_residual(),
                     .residual_decay = feedback.decay};
}

}  // namespace psgd
