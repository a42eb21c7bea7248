// chunked: of each chunk of a slice, the values of largest magnitude, in a few bits each.
// Sarfi, Thérien, Lidin, Belilovsky: "Communication efficient LLM pre-training with SparseLoCo",
// arXiv 2508.15706, 2025 (chunks of 4096, 64 values of 2 bits, error feedback with a decay of 0.95
// between local steps; here shorter indices, and levels fitted to each chunk).
//
// Steps, for each chunk of `chunk` elements of c = gradient + residual:
//   1. the `keep` largest |c[i]|, the lower index first among equals, are sent, but no zeros. A
//      shorter last chunk sends the same share, at least one
//   2. magnitudes become the nearest of 2^(bits - 1) levels at equal distances. The first levels
//      reach from the least to the largest magnitude. Twice, the levels with the least squared
//      error replace them, for magnitudes that keep their level's number; then the first and the
//      last are rounded to 8 significant bits (coarse.h), and each magnitude takes its nearest
//   3. residual[i] = c[i] - decoded[i], which is c[i] where nothing was sent
// At 2 bits the squared error is within an eighth of the least that two magnitudes can have, for
// Gaussian as for heavy-tailed values. What is sent of a Gaussian chunk loses 0.4 % of its energy.
//
// Wire, 8 + 4 * C + 2 * bits * ceil(k / 16) + ceil(rice / 8) bytes for C = ceil(n / chunk) chunks:
//   0        u32    k: values in all, at most n
//   4        u8     low_bits of the Rice codes, at most 31; 0 when k is 0
//   5        u8     bits of a value, 2 to 8
//   6        u16    chunk - 1; chunk is 64 to 65536
//   8        C x {u16 low, u16 high}: first and last level, upper halves of fp32,
//                   0 <= low <= high; level j is low + j (high - low) / (2^(bits - 1) - 1), rounded
//                   to 8 bits
//   8 + 4C   codes, in the order of their indices: a level, and above it a bit for the sign, set
//                   if negative. Codes go in groups of 16; a group is `bits` words of 16 bits, bit
//                   i of word p is bit p of the group's code i; bits beyond the last are 0
//   ...      indices in the slice, strictly ascending, as rice.h says; bits beyond the last are 0
// An index takes 7.5 bits at 64 of 4096 (any code takes at least 7.4, indices within the chunk
// 12). So a value takes 1.25 bytes with its share of the levels, and a slice is 204 times smaller.
// No state beside the residual. Biased: it needs a residual to converge.
#pragma once

#include "compression/kernels.h"

namespace psgd {

StatusOrCodec MakeChunked(const ChunkedCodec& config, const CodecKernels& kernels);

}  // namespace psgd
