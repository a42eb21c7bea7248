// The search for large elements. Highway loops, chosen by CPU at run time. See kernels.h.
#pragma once

#include "compression/kernels.h"

namespace psgd::simd {

size_t Gather(std::span<const float> gradient, float* residual, uint32_t least, uint32_t first,
              uint32_t* indices, float* values);

}  // namespace psgd::simd
