// fp32 values that travel as they are, and sums of them. Highway loops, chosen by CPU at run time.
// See kernels.h.
#pragma once

#include <cstddef>
#include <span>

namespace psgd::simd {

void Add(std::span<const float> x, std::span<float> y);
void AddScaled(float scale, const std::byte* x, std::span<float> y);
bool AllFinite(const std::byte* x, size_t count);
double SumSquares(std::span<const float> x);
void Blend(float keep, std::span<const float> x, float share, std::span<float> y);

}  // namespace psgd::simd
