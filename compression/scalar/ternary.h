// Base-3 digits. Plain loops: the oracle. See kernels.h.
#pragma once

#include "compression/kernels.h"
#include "compression/lanes.h"

namespace psgd::scalar {

Moments Measure(std::span<const float> gradient, float* residual);
// Continues given lanes, with the elements that a vector loop leaves over.
void MeasureInto(std::span<const float> gradient, float* residual, Lanes<float>* largest,
                 Lanes<double>* squares);
Drawn DrawTrits(std::span<const float> corrected, const TernaryDraw& draw, std::byte* out);
// Packs bytes * kTernaryDigits digits.
void PackDigits(const uint8_t* digits, size_t bytes, std::byte* out);
void UnpackTrits(const std::byte* in, size_t bytes, int8_t* trits);
void AddTrits(const int8_t* trits, float scale, std::span<float> y);

}  // namespace psgd::scalar
