// IEEE binary16. Plain loops: the oracle. See kernels.h.
#pragma once

#include <cstddef>
#include <span>

namespace psgd::scalar {

void EncodeHalves(std::span<const float> gradient, float* residual, std::byte* out);
void AddHalves(float scale, const std::byte* halves, std::span<float> y);
bool AllFiniteHalves(const std::byte* halves, size_t count);

}  // namespace psgd::scalar
