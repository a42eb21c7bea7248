// The inner loops of the codecs and the table of their twins. scalar/ and simd/ have the same
// functions. Given the same input they write the same bytes and floats: sums follow
// lanes.h, a product and a sum are never contracted, random numbers are Philox.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/philox.h"
#include "compression/codec.h"
#include "compression/dense/ternary_value.h"
#include "compression/sparse/chunk_levels.h"

namespace psgd {

// Wire bytes may lie at any address, so the loops take them as bytes.
struct DenseKernels {
  // y += x.
  void (*add)(std::span<const float> x, std::span<float> y);
  // y += scale * x, x little-endian fp32.
  void (*add_scaled)(float scale, const std::byte* x, std::span<float> y);
  // The largest magnitude: NaN or infinite if any of the values is.
  float (*largest)(const std::byte* x, size_t count);
  double (*sum_squares)(std::span<const float> x);
  // y = keep * y + share * x.
  void (*blend)(float keep, std::span<const float> x, float share, std::span<float> y);
};

// Numbers of 16 bits: binary16 or bfloat16.
struct HalfKernels {
  // Writes halves of gradient + residual to `out`, rounding errors to the residual (may be null).
  void (*encode)(std::span<const float> gradient, float* residual, std::byte* out);
  void (*add)(float scale, const std::byte* halves, std::span<float> y);
  bool (*all_finite)(const std::byte* halves, size_t count);
};

// One block split by sign.
struct SignSums {
  double positive = 0;  // sum of the elements >= 0
  double negative = 0;  // sum of the others
  uint32_t positive_count = 0;
};

struct OnebitKernels {
  // Writes gradient + residual to the residual (may be null) and its sign bits to `bits`.
  SignSums (*split)(std::span<const float> gradient, float* residual, std::byte* bits);
  // y[i] += high where bit first + i is set, low elsewhere.
  void (*add)(const std::byte* bits, size_t first, float high, float low, std::span<float> y);
};

struct TernaryDraw {
  float limit = 0;  // an element of this magnitude is always drawn
  PhiloxKey key;
  uint64_t step = 0;
  uint32_t first = 0;  // index in the slice of the first element, a multiple of kTernaryGroup
};

struct TernaryKernels {
  // Writes gradient + residual to the residual (may be null) and measures it.
  Moments (*measure)(std::span<const float> gradient, float* residual);
  // Draws every element and writes the digits, kTernaryGroup elements to kTernaryBytes bytes.
  Drawn (*draw)(std::span<const float> corrected, const TernaryDraw& draw, std::byte* out);
  // Unpacks `bytes` bytes to digits of -1, 0, 1: digit t of byte j goes to trits[j + bytes * t].
  void (*unpack)(const std::byte* in, size_t bytes, int8_t* trits);
  // y += scale * trits.
  void (*add)(const int8_t* trits, float scale, std::span<float> y);
};

// How elements become whole multiples of a unit.
struct QuantizeDraw {
  float unit = 0;
  float inverse = 0;  // 1 / unit; 0 for a unit of 0
  float largest_level = 0;
  bool stochastic = false;  // false: rounds to nearest
  PhiloxKey key;
  uint64_t step = 0;
  uint32_t first = 0;  // index in the slice of the first element, a multiple of 64
};

struct QuantizeKernels {
  // Writes gradient + residual to the residual (may be null). Returns the largest magnitude's bits.
  uint32_t (*largest)(std::span<const float> gradient, float* residual);
  // Writes the levels of `corrected`, and the rest to the residual (null, or `corrected` itself).
  void (*quantize)(std::span<const float> corrected, const QuantizeDraw& draw, int8_t* levels,
                   float* residual);
  // Packs `groups` times 16 codes of `bits` bits each, and unpacks them (see qsgd.h).
  void (*pack)(const uint8_t* codes, size_t groups, uint32_t bits, std::byte* out);
  void (*unpack)(const std::byte* in, size_t groups, uint32_t bits, uint8_t* codes);
};

struct NaturalDraw {
  PhiloxKey key;
  uint64_t step = 0;
};

struct NaturalKernels {
  // Rounds gradient + residual to powers of two: an exponent byte and a sign bit for each element.
  // The rest goes to the residual (may be null).
  void (*encode)(std::span<const float> gradient, float* residual, const NaturalDraw& draw,
                 std::byte* exponents, std::byte* signs);
  // y[i] += scale * value of element first + i.
  void (*add)(const std::byte* exponents, const std::byte* signs, size_t first, float scale,
              std::span<float> y);
};

struct TopkKernels {
  // Writes gradient + residual to the residual (may be null). Appends index and value of each sum
  // whose magnitude bits are at least `least`; returns how many. `first` is the index of the first
  // element. REQUIRES: room for gradient.size() + kGatherSlack entries.
  size_t (*gather)(std::span<const float> gradient, float* residual, uint32_t least, uint32_t first,
                   uint32_t* indices, float* values);
};
inline constexpr size_t kGatherSlack = 16;

struct ChunkedKernels {
  // Sums over magnitudes of finite values and their nearest levels.
  LevelSums (*sum_levels)(std::span<const float> values, const ChunkLevels& levels);
};

struct MomentumKernels {
  // velocity = momentum * velocity + scale * gradient; sum (may be null) += velocity.
  void (*accumulate)(std::span<const float> gradient, float scale, float momentum, float* velocity,
                     float* sum);
};

// Products with the few columns of a thin matrix.
struct LowRankKernels {
  // Inner product: fp32 sums in lanes (lanes.h), which are added up in double precision.
  double (*dot)(std::span<const float> x, const float* y);
  // y[i] += scale * (left[0] * right[i] + left[1] * right[stride + i] + ...), `rank` terms from the
  // first to the last.
  void (*expand)(const std::byte* left, const std::byte* right, size_t stride, uint32_t rank,
                 float scale, std::span<float> y);
  // out[r][c] = left[r][0] * right[0][c] + left[r][1] * right[1][c] + ..., `rank` terms from the
  // first to the last. Rows of `left` are `rank` long; a row of `right` begins every `stride`
  // numbers.
  void (*multiply)(const float* left, size_t rows, size_t rank, const float* right, size_t stride,
                   size_t columns, float* out);
};

struct CodecKernels {
  DenseKernels dense;
  HalfKernels fp16;
  HalfKernels bf16;
  OnebitKernels onebit;
  TernaryKernels ternary;
  QuantizeKernels quantize;
  NaturalKernels natural;
  TopkKernels topk;
  ChunkedKernels chunked;
  MomentumKernels momentum;
  LowRankKernels low_rank;
};

const CodecKernels& KernelsFor(CodecBackend backend);

}  // namespace psgd
