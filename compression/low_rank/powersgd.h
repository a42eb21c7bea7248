// powersgd: a matrix as the product of two thin ones.
// Vogels, Karimireddy, Jaggi: "PowerSGD: practical low-rank gradient compression for distributed
// optimization", NeurIPS 2019 (with its warm start and error feedback).
//
// Steps, c = gradient + residual as a matrix M of R rows and C columns (matrix_view.h: the tensor's
// rows are its first dimension; missing elements of a slice's first and last row count as zeros):
//   1. P = M Q, with the Q of the last step; the first Q is drawn
//   2. P's columns are made orthonormal (Gram-Schmidt); a dependent column becomes 0
//   3. Q = transposed M times P; it also starts the next step. A column of zeros is drawn anew
//   4. decoded = P times transposed Q;  residual = c - decoded
// The paper adds up P over the workers between 1 and 2, and so sends the best matrix for their sum.
// Here each worker sends its own matrices, and the shard adds up the products.
//
// Wire, 4 + 4 * rank * (R + C) bytes, or 4 + 2 * n:
//   0   u32         rank; 0: the slice travels as binary16
//   4   fp32        P, row by row: the `rank` numbers of a row together
//   ... fp32        Q, column by column of it: C numbers for each of the `rank`
// or
//   4   n binary16
// A slice travels as binary16 if its two matrices would take as much (vectors, small slices, parts
// of very long rows), or if their product might overflow fp32.
// A slice of 1 Mi elements of a matrix with 1024 columns at rank 4: 0.25 bits an element. State: Q,
// kept in checkpoints. Biased: it needs a residual to converge.
#pragma once

#include "compression/kernels.h"

namespace psgd {

inline constexpr uint32_t kMostRank = 64;

StatusOrCodec MakePowersgd(const PowersgdCodec& config, const CodecKernels& kernels);

}  // namespace psgd
