// Sign bits. Plain loops: the oracle. See kernels.h.
#pragma once

#include "compression/kernels.h"

namespace psgd::scalar {

SignSums SplitSigns(std::span<const float> gradient, float* residual, std::byte* bits);
void AddSigns(const std::byte* bits, size_t first, float high, float low, std::span<float> y);

}  // namespace psgd::scalar
