// Base-3 digits. Highway loops, chosen by CPU at run time. See kernels.h.
#pragma once

#include "compression/kernels.h"

namespace psgd::simd {

Moments Measure(std::span<const float> gradient, float* residual);
Drawn DrawTrits(std::span<const float> corrected, const TernaryDraw& draw, std::byte* out);
void UnpackTrits(const std::byte* in, size_t bytes, int8_t* trits);
void AddTrits(const int8_t* trits, float scale, std::span<float> y);

}  // namespace psgd::simd
