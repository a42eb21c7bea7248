// Momentum that is added up. Highway loops, chosen by CPU at run time. See kernels.h.
#pragma once

#include <cstddef>
#include <span>

namespace psgd::simd {

void Accumulate(std::span<const float> gradient, float scale, float momentum, float* velocity,
                float* sum);

}  // namespace psgd::simd
