// Momentum that is added up. Plain loops: the oracle. See kernels.h.
#pragma once

#include <cstddef>
#include <span>

namespace psgd::scalar {

void Accumulate(std::span<const float> gradient, float scale, float momentum, float* velocity,
                float* sum);

}  // namespace psgd::scalar
