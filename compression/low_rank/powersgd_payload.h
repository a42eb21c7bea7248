// The layout of a payload of powersgd.h, and its reading side.
#pragma once

#include "compression/kernels.h"
#include "compression/low_rank/matrix_view.h"

namespace psgd {

inline constexpr size_t kPowersgdHeaderBytes = 4;

// Number of floats in both matrices.
inline uint64_t LowRankFloats(const MatrixView& view, uint64_t rank) {
  return rank * (view.rows + view.columns);
}

// Whether the two matrices take less room than the elements as binary16.
bool LowRankPays(const MatrixView& view, uint64_t rank);

// Upper bound of a sum of `rank` products of the matrices' elements. Both matrices are fp32 bytes.
float LargestProduct(const std::byte* left, size_t left_count, const std::byte* right,
                     size_t right_count, uint32_t rank);
// Whether no such sum overflows.
bool ProductIsFinite(const std::byte* left, size_t left_count, const std::byte* right,
                     size_t right_count, uint32_t rank);

// Checks every byte of a payload and opens it.
StatusOrReader OpenPowersgd(ByteSpan payload, const SliceShape& shape, const CodecKernels& kernels);

}  // namespace psgd
