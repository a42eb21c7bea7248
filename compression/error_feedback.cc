#include "compression/error_feedback.h"

#include <algorithm>

namespace psgd {

ErrorFeedback::ErrorFeedback(const Codec& codec, const SliceShape& shape,
                             const ErrorFeedbackOptions& options)
    : decay_(options.decay),
      elements_(shape.elements),
      state_arrays_(codec.state_arrays()),
      kernels_(KernelsFor(options.backend)),
      encoder_(codec.NewEncoder(shape)),
      residual_(options.accumulate && codec.keeps_residual() ? shape.elements : 0) {}

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

std::vector<float> ErrorFeedback::CopyState() const {
  if (residual_.empty() && state_arrays_ == 0) return {};
  std::vector<float> arrays((1 + state_arrays_) * elements_);
  std::copy(residual_.begin(), residual_.end(), arrays.begin());
  encoder_->SaveState(std::span(arrays).subspan(elements_));
  return arrays;
}

void ErrorFeedback::LoadState(std::span<const float> arrays) {
  if (!residual_.empty() && arrays.size() >= elements_) SetResidual(arrays.first(elements_));
  const size_t needed = (1 + state_arrays_) * elements_;
  if (state_arrays_ > 0 && arrays.size() >= needed) {
    encoder_->LoadState(arrays.first(needed).subspan(elements_));
  }
}

void ErrorFeedback::Reset() { std::fill(residual_.begin(), residual_.end(), 0.0f); }

}  // namespace psgd
