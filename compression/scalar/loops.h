// Plain loops: the oracle of simd/ and cuda/, and the elements that a vector loop leaves over. See
// kernels.h.
#pragma once

#include "compression/kernels.h"
#include "compression/lanes.h"
#include "compression/magnitude.h"

namespace psgd::scalar {

// fp32 values that travel as they are, and sums of them.
void Add(std::span<const float> x, std::span<float> y);
void AddScaled(float scale, const std::byte* x, std::span<float> y);
using psgd::LargestMagnitude;
double SumSquares(std::span<const float> x);
void Blend(float keep, std::span<const float> x, float share, std::span<float> y);

// Thin matrices.
double Dot(std::span<const float> x, const float* y);
void Expand(const std::byte* left, const std::byte* right, size_t stride, uint32_t rank,
            float scale, std::span<float> y);
void Multiply(const float* left, size_t rows, size_t rank, const float* right, size_t stride,
              size_t columns, float* out);

// Momentum that is added up.
void Accumulate(std::span<const float> gradient, float scale, float momentum, float* velocity,
                float* sum);

// Powers of two.
void EncodeNatural(std::span<const float> gradient, float* residual, const NaturalDraw& draw,
                   std::byte* exponents, std::byte* signs);
void AddNatural(const std::byte* exponents, const std::byte* signs, size_t first, float scale,
                std::span<float> y);

// Sign bits.
SignSums SplitSigns(std::span<const float> gradient, float* residual, std::byte* bits);
// Continues given sums, with the elements that a vector loop leaves over.
void SplitSignsInto(std::span<const float> gradient, float* residual, std::byte* bits,
                    Lanes<float>* positive, Lanes<float>* negative, uint32_t* positive_count);
void AddSigns(const std::byte* bits, size_t first, float high, float low, std::span<float> y);

// Whole multiples of a unit, and codes of a few bits.
uint32_t Largest(std::span<const float> gradient, float* residual);
void Quantize(std::span<const float> corrected, const QuantizeDraw& draw, int8_t* levels,
              float* residual);
void PackCodes(const uint8_t* codes, size_t groups, uint32_t bits, std::byte* out);
void UnpackCodes(const std::byte* in, size_t groups, uint32_t bits, uint8_t* codes);

// Base-3 digits.
Moments Measure(std::span<const float> gradient, float* residual);
// Continues given lanes, with the elements that a vector loop leaves over.
void MeasureInto(std::span<const float> gradient, float* residual, Lanes<float>* largest,
                 Lanes<double>* squares);
Drawn DrawTrits(std::span<const float> corrected, const TernaryDraw& draw, std::byte* out);
// Packs bytes * kTernaryDigits digits.
void PackDigits(const uint8_t* digits, size_t bytes, std::byte* out);
void UnpackTrits(const std::byte* in, size_t bytes, int8_t* trits);
void AddTrits(const int8_t* trits, float scale, std::span<float> y);

// The search for large elements.
size_t Gather(std::span<const float> gradient, float* residual, uint32_t least, uint32_t first,
              uint32_t* indices, float* values);

// The levels of a chunk.
LevelSums SumLevels(std::span<const float> values, const ChunkLevels& levels);

}  // namespace psgd::scalar
