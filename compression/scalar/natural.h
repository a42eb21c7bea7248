// Powers of two. Plain loops: the oracle. See kernels.h.
#pragma once

#include "compression/kernels.h"

namespace psgd::scalar {

void EncodeNatural(std::span<const float> gradient, float* residual, const NaturalDraw& draw,
                   std::byte* exponents, std::byte* signs);
void AddNatural(const std::byte* exponents, const std::byte* signs, size_t first, float scale,
                std::span<float> y);

}  // namespace psgd::scalar
