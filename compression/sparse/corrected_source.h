// Gradient + residual, made block by block: the numbers that sparse codecs choose from.
#pragma once

#include "compression/sparse/select_largest.h"

namespace psgd {

// Leaves the sums in the residual. Without a residual, the numbers are the gradient itself. Both
// must outlive the source.
class CorrectedSource final : public SelectSource {
 public:
  CorrectedSource(std::span<const float> gradient, std::span<float> residual,
                  const CodecKernels& kernels)
      : gradient_(gradient), residual_(residual), kernels_(kernels) {}

  size_t size() const override { return gradient_.size(); }

  void Sample(size_t begin, float* run) const override {
    for (size_t i = 0; i < kSampleRun; ++i) {
      run[i] = gradient_[begin + i];
      if (!residual_.empty()) run[i] += residual_[begin + i];
    }
  }

  void Make(size_t begin, size_t count) override {
    if (residual_.empty()) return;
    kernels_.dense.add(gradient_.subspan(begin, count), residual_.subspan(begin, count));
  }

  size_t Gather(size_t begin, size_t count, uint32_t least, uint32_t* indices,
                float* values) override {
    return kernels_.topk.gather(gradient_.subspan(begin, count),
                                residual_.empty() ? nullptr : residual_.data() + begin, least,
                                static_cast<uint32_t>(begin), indices, values);
  }

  std::span<const float> Made() const override {
    return residual_.empty() ? gradient_ : std::span<const float>(residual_);
  }

 private:
  const std::span<const float> gradient_;
  const std::span<float> residual_;
  const CodecKernels& kernels_;
};

}  // namespace psgd
