#include "compression/error_feedback.h"

#include <algorithm>

namespace psgd {

ErrorFeedback::ErrorFeedback(const Codec& codec, const SliceShape& shape,
                             const ErrorFeedbackOptions& options)
    : decay_(options.decay),
      kernels_(KernelsFor(options.backend)),
      encoder_(codec.NewEncoder(shape)),
      residual_(options.accumulate && !codec.lossless() ? shape.elements : 0) {}

void ErrorFeedback::Encode(std::span<const float> gradient, PhiloxKey key, uint64_t step,
                           std::vector<std::byte>* out) {
  if (decay_ != 1) {
    for (float& r : residual_) r *= decay_;
  }
  encoder_->Encode({gradient, residual_, key, step}, out);
}

double ErrorFeedback::SquaredNorm() const { return kernels_.dense.sum_squares(residual_); }

void ErrorFeedback::SetResidual(std::span<const float> values) {
  std::copy(values.begin(), values.end(), residual_.begin());
}

void ErrorFeedback::Reset() { std::fill(residual_.begin(), residual_.end(), 0.0f); }

}  // namespace psgd
