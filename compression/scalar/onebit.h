// Sign bits. Plain loops: the oracle. See kernels.h.
#pragma once

#include "compression/kernels.h"
#include "compression/lanes.h"

namespace psgd::scalar {

SignSums SplitSigns(std::span<const float> gradient, float* residual, std::byte* bits);
// Continues given sums, with the elements that a vector loop leaves over.
void SplitSignsInto(std::span<const float> gradient, float* residual, std::byte* bits,
                    Lanes<float>* positive, Lanes<float>* negative, uint32_t* positive_count);
void AddSigns(const std::byte* bits, size_t first, float high, float low, std::span<float> y);

}  // namespace psgd::scalar
