// IEEE binary16. Highway loops, chosen by CPU at run time. See kernels.h.
#pragma once

#include <cstddef>
#include <span>

namespace psgd::simd {

void EncodeHalves(std::span<const float> gradient, float* residual, std::byte* out);
void AddHalves(float scale, const std::byte* halves, std::span<float> y);
bool AllFiniteHalves(const std::byte* halves, size_t count);

}  // namespace psgd::simd
