// Thin matrices. Plain loops: the oracle. See kernels.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace psgd::scalar {

double Dot(std::span<const float> x, const float* y);
void Expand(const std::byte* left, const std::byte* right, size_t stride, uint32_t rank,
            float scale, std::span<float> y);

}  // namespace psgd::scalar
