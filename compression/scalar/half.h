// Numbers of 16 bits; `Format` is that of dense/half.h or dense/brain.h. See loops.h.
#pragma once

#include "compression/dense/brain.h"
#include "compression/dense/half.h"
#include "compression/kernels.h"
#include "compression/payload_bytes.h"

namespace psgd::scalar {

template <typename Format>
void EncodeHalves(std::span<const float> gradient, float* residual, std::byte* out) {
  for (size_t i = 0; i < gradient.size(); ++i) {
    const float corrected = residual != nullptr ? gradient[i] + residual[i] : gradient[i];
    const uint16_t half = Format::From(corrected);
    StoreField(half, out + i * kHalfBytes);
    if (residual != nullptr) residual[i] = corrected - Format::To(half);
  }
}

template <typename Format>
void AddHalves(float scale, const std::byte* halves, std::span<float> y) {
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] += scale * Format::To(LoadField<uint16_t>(halves + i * kHalfBytes));
  }
}

template <typename Format>
bool AllFiniteHalves(const std::byte* halves, size_t count) {
  bool finite = true;
  for (size_t i = 0; i < count; ++i) {
    const auto half = LoadField<uint16_t>(halves + i * kHalfBytes);
    finite &= (half & Format::kExponent) != Format::kExponent;
  }
  return finite;
}

template <typename Format>
constexpr HalfKernels kHalfKernels = {EncodeHalves<Format>, AddHalves<Format>,
                                      AllFiniteHalves<Format>};

}  // namespace psgd::scalar
