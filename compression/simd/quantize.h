// Whole multiples of a unit, and codes of a few bits. Highway loops, chosen by CPU at run time. See
// kernels.h.
#pragma once

#include "compression/kernels.h"

namespace psgd::simd {

uint32_t Largest(std::span<const float> gradient, float* residual);
void Quantize(std::span<const float> corrected, const QuantizeDraw& draw, int8_t* levels,
              float* residual);
void PackCodes(const uint8_t* codes, size_t groups, uint32_t bits, std::byte* out);
void UnpackCodes(const std::byte* in, size_t groups, uint32_t bits, uint8_t* codes);

}  // namespace psgd::simd
