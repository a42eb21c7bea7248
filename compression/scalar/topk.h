// The search for large elements. Plain loops: the oracle. See kernels.h.
#pragma once

#include "compression/kernels.h"

namespace psgd::scalar {

size_t Gather(std::span<const float> gradient, float* residual, uint32_t least, uint32_t first,
              uint32_t* indices, float* values);

}  // namespace psgd::scalar
