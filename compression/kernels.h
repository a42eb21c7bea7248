// The inner loops of the codecs and the table of their twins. Each room of loops (scalar/, simd/)
// has the same files with the same functions; given the same input they write the same bytes and
// floats: sums follow lanes.h, a product and a sum are never contracted, random numbers are Philox.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/strings/string_view.h"
#include "common/philox.h"
#include "compression/codec.h"

namespace psgd {

// Wire bytes may lie at any address, so the loops take them as bytes.
struct DenseKernels {
  // y += x.
  void (*add)(std::span<const float> x, std::span<float> y);
  // y += scale * x, x little-endian fp32.
  void (*add_scaled)(float scale, const std::byte* x, std::span<float> y);
  bool (*all_finite)(const std::byte* x, size_t count);
  double (*sum_squares)(std::span<const float> x);
};

struct Fp16Kernels {
  // Halves of gradient + residual to `out`; what rounding took off to the residual (may be null).
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

struct Moments {
  float largest = 0;  // magnitude
  double sum_squares = 0;
};

struct TernaryDraw {
  float limit = 0;  // an element of this magnitude is always drawn
  PhiloxKey key;
  uint64_t step = 0;
};

// The elements that were drawn.
struct Drawn {
  double sum = 0;  // of their magnitudes; infinite where a short sum of huge ones overflows fp32
  uint64_t count = 0;
};

struct TernaryKernels {
  // Writes gradient + residual to the residual (may be null) and measures it.
  Moments (*measure)(std::span<const float> gradient, float* residual);
  // Draws every element and writes the digits, kTernaryGroup elements to kTernaryBytes bytes.
  Drawn (*draw)(std::span<const float> corrected, const TernaryDraw& draw, std::byte* out);
  // The digits of `bytes` bytes as -1, 0, 1: digit t of byte j at trits[j + bytes * t].
  void (*unpack)(const std::byte* in, size_t bytes, int8_t* trits);
  // y += scale * trits.
  void (*add)(const int8_t* trits, float scale, std::span<float> y);
};

struct TopkKernels {
  // Writes gradient + residual to the residual (may be null). Appends index and value of each sum
  // whose magnitude bits are at least `least`; returns how many. `first` is the index of the first
  // element. REQUIRES: room for gradient.size() + kGatherSlack entries.
  size_t (*gather)(std::span<const float> gradient, float* residual, uint32_t least, uint32_t first,
                   uint32_t* indices, float* values);
};
inline constexpr size_t kGatherSlack = 16;

struct CodecKernels {
  absl::string_view name;
  DenseKernels dense;
  Fp16Kernels fp16;
  OnebitKernels onebit;
  TernaryKernels ternary;
  TopkKernels topk;
};

const CodecKernels& KernelsFor(CodecBackend backend);

}  // namespace psgd
