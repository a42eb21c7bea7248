// Powers of two. Highway loops, chosen by CPU at run time. See kernels.h.
#pragma once

#include "compression/kernels.h"

namespace psgd::simd {

void EncodeNatural(std::span<const float> gradient, float* residual, const NaturalDraw& draw,
                   std::byte* exponents, std::byte* signs);
void AddNatural(const std::byte* exponents, const std::byte* signs, size_t first, float scale,
                std::span<float> y);

}  // namespace psgd::simd
