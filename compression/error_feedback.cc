#include "compression/error_feedback.h"

#include <algorithm>

namespace psgd {

ErrorFeedback::ErrorFeedback(const Codec& codec, const SliceShape& shape,
                             const ErrorFeedbackOptions& options)
    : options_(options), shape_(shape), kernels_(KernelsFor(options.backend)) {
  Use(codec);
}

void ErrorFeedback::Use(const Codec& codec) {
  state_arrays_ = codec.state_arrays();
  lossless_ = codec.lossless();
  encoder_ = codec.NewEncoder(shape_);
  // A lossless codec sends another codec's residual, and needs none of its own.
  if (options_.accumulate && codec.keeps_residual()) {
    residual_.resize(shape_.elements);
    owed_ = false;
  }
}

void ErrorFeedback::Encode(std::span<const float> gradient, PhiloxKey key, uint64_t step,
                           std::vector<std::byte>* out) {
  if (options_.decay != 1) {
    for (float& r : residual_) r *= options_.decay;
  }
  encoder_->Encode({gradient, residual_, key, step}, out);
  if (!owed_) return;
  residual_ = {};
  owed_ = false;
}

double ErrorFeedback::SquaredNorm() const { return kernels_.dense.sum_squares(residual_); }

void ErrorFeedback::SetResidual(std::span<const float> values) {
  std::copy(values.begin(), values.end(), residual_.begin());
}

std::vector<float> ErrorFeedback::CopyState() const {
  if (residual_.empty() && state_arrays_ == 0) return {};
  std::vector<float> arrays((1 + state_arrays_) * shape_.elements);
  std::copy(residual_.begin(), residual_.end(), arrays.begin());
  encoder_->SaveState(std::span(arrays).subspan(shape_.elements));
  return arrays;
}

void ErrorFeedback::LoadState(std::span<const float> arrays) {
  if (arrays.size() >= shape_.elements) {
    const auto left = arrays.first(shape_.elements);
    if (lossless_ && residual_.empty()) {
      owed_ = std::ranges::any_of(left, [](float v) { return v != 0; });
      if (owed_) residual_.resize(shape_.elements);
    }
    if (!residual_.empty()) SetResidual(left);
  }
  const size_t needed = (1 + state_arrays_) * shape_.elements;
  if (state_arrays_ > 0 && arrays.size() >= needed) {
    encoder_->LoadState(arrays.first(needed).subspan(shape_.elements));
  }
}

}  // namespace psgd
