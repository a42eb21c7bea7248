// Thin matrices. Highway loops, chosen by CPU at run time. See kernels.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace psgd::simd {

double Dot(std::span<const float> x, const float* y);
void Expand(const std::byte* left, const std::byte* right, size_t stride, uint32_t rank,
            float scale, std::span<float> y);
void Multiply(const float* left, size_t rows, size_t rank, const float* right, size_t stride,
              size_t columns, float* out);

}  // namespace psgd::simd
