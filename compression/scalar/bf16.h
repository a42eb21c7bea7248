// bfloat16. Plain loops: the oracle. See kernels.h.
#pragma once

#include <cstddef>
#include <span>

namespace psgd::scalar {

void EncodeBrains(std::span<const float> gradient, float* residual, std::byte* out);
void AddBrains(float scale, const std::byte* brains, std::span<float> y);
bool AllFiniteBrains(const std::byte* brains, size_t count);

}  // namespace psgd::scalar
