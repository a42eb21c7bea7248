// Where the parts of a payload of powersgd.h lie, and its reading side.
#pragma once

#include "compression/kernels.h"
#include "compression/low_rank/matrix_view.h"

namespace psgd {

inline constexpr size_t kPowersgdHeaderBytes = 4;

// Floats of both matrices.
inline uint64_t LowRankFloats(const MatrixView& view, uint64_t rank) {
  return rank * (view.rows + view.columns);
}

// The two matrices take less than the elements do as binary16.
bool LowRankPays(const MatrixView& view, uint64_t rank);

// No sum of `rank` products of their elements is larger. Bytes of fp32.
float LargestProduct(const std::byte* left, size_t left_count, const std::byte* right,
                     size_t right_count, uint32_t rank);
// Nor can one overflow.
bool ProductIsFinite(const std::byte* left, size_t left_count, const std::byte* right,
                     size_t right_count, uint32_t rank);

// Checks every byte of a payload and opens it.
absl::StatusOr<std::unique_ptr<PayloadReader>> OpenPowersgd(ByteSpan payload,
                                                            const SliceShape& shape,
                                                            const CodecKernels& kernels);

}  // namespace psgd
