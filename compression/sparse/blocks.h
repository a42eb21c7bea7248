// blocks: sends whole blocks of neighboring elements, the blocks of largest L2 norm.
// Fei, Ho, Sahu, Canini, Sapio: "Efficient sparse collective communication and its application to
// accelerate distributed deep learning" (OmniReduce), SIGCOMM 2021 (block top-k, non-zero blocks).
//
// Steps, c = gradient + residual, in B = ceil(n / block) blocks:
//   1. the norm of each block
//   2. the max(1, round(density * B)) blocks of largest norm are sent, the first among equals, but
//      no block of zeros. Their residual becomes 0; the residual of the others is c
//
// Wire, 16 + 4 * m + ceil(bits / 8) bytes:
//   0    u32    k, at most B
//   4    u32    low_bits of the Rice codes, at most 31; 0 when k is 0
//   8    u32    block: elements of a block, 1 to 1 Mi; the slice's last block may be shorter
//   12   u32    m: elements of the blocks sent
//   16   fp32   their values, one block after the other
//   ...  bits   the numbers of the blocks, strictly ascending, as rice.h says; bits beyond are 0
// At density 0.01: 0.32 bits an element; the indices cost almost nothing. No state beside the
// residual. Biased: it needs a residual to converge. The residual is longer than topk's at the same
// bytes, unless large elements have large neighbors, as in the rows of an embedding.
#pragma once

#include "compression/kernels.h"

namespace psgd {

StatusOrCodec MakeBlocks(const BlocksCodec& config, const CodecKernels& kernels);

}  // namespace psgd
