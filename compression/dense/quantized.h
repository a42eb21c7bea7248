// Shared by int8 and qsgd: elements are whole multiples (levels) of a unit, one for each block.
//
// Steps, for each block of c = gradient (+ residual), levels -s to s:
//   1. unit = max |c| / s, or |c|_2 / s for the L2 norm, rounded up to 8 significant bits
//      (coarse.h); 0 if that is below 2^-100
//   2. level[i] = floor(|c[i]| / unit + u), at most s, with the sign of c[i]; u is uniform in
//      [0, 1) (quantize_random.h), or 1/2 to round to nearest
//   3. decoded[i] = level[i] * unit;  residual[i] = c[i] - decoded[i]
// With random u the decoded block is an unbiased estimate of c.
#pragma once

#include "compression/kernels.h"

namespace psgd {

inline constexpr uint32_t kQuantizedBlockUnit = 64;
inline constexpr uint32_t kLargestQuantizedBlock = 1u << 20;
inline constexpr uint32_t kLeastQuantizedBits = 2;
inline constexpr uint32_t kMostQuantizedBits = 8;

struct QuantizedOptions {
  CodecId id = CODEC_INT8;
  absl::string_view name;  // a literal
  uint32_t block = 0;
  uint32_t bits = 8;    // s = 2^(bits - 1) - 1
  bool packed = false;  // codes of `bits` bits (qsgd.h); else bytes (int8.h)
  bool l2 = false;
  bool stochastic = true;
};

// Returns an error if the block is not valid.
absl::StatusOr<std::unique_ptr<Codec>> MakeQuantized(const QuantizedOptions& options,
                                                     const CodecKernels& kernels);

}  // namespace psgd
