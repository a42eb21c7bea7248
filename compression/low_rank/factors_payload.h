// Writing and reading payloads of factors.h that hold two matrices.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compression/kernels.h"
#include "compression/sparse/nonzero.h"

namespace psgd {

// Rounding to bytes draws as quantized.h says. Sample n has the numbers from n W on: its
// inputs, then at the next whole group the gradients of its outputs. W counts both in whole groups.
// So both factors of a product are rounded independently, and the product's mean is exact.
struct FactorsDraw {
  PhiloxKey key;
  uint64_t step = 0;
};

// Encodes the factors of one tensor after another. Not thread-safe.
class FactorsEncoder {
 public:
  // `coding` says how values travel: as fp32, binary16 or bytes.
  explicit FactorsEncoder(const CodecKernels& kernels, ValueCoding coding = ValueCoding::kFloat)
      : kernels_(kernels), coding_(coding) {}

  // Begins a step. Each of the `batch` rows of `factors` is a row of X, then a row of transposed D.
  // `factors` must outlive the calls of Encode that follow. REQUIRES: batch > 0.
  void Begin(std::span<const float> factors, uint64_t batch, uint64_t columns,
             const FactorsDraw& draw = {});
  // Appends the payload for these slices of the tensor. If the payload would not pay, appends
  // nothing and returns false.
  bool Encode(std::span<const SliceShape> shapes, std::vector<std::byte>* out);

 private:
  // Rounds factors_ to multiples of a unit for each sample and matrix.
  void RoundToBytes(const FactorsDraw& draw);
  // Rounds `count` values from `begin` of a sample to levels_; returns their unit.
  float RoundRow(size_t begin, size_t count, uint32_t first, const FactorsDraw& draw);
  // Returns what is sent for a value of factors_, without the shift of its matrix.
  float Sent(size_t index) const {
    return step_coding_ == ValueCoding::kByte ? static_cast<float>(levels_[index])
                                              : factors_[index];
  }
  // Appends matrix_, then the units of its samples if there are any.
  void AppendMatrix(std::span<const uint16_t> units, std::vector<std::byte>* out);

  const CodecKernels& kernels_;
  const ValueCoding coding_;
  std::span<const float> factors_;
  uint64_t batch_ = 0;
  uint64_t columns_ = 0;
  ValueCoding step_coding_ = coding_;
  int left_shift_ = 0, right_shift_ = 0;  // powers of two that the matrices are multiplied by
  std::vector<int8_t> levels_;            // of factors_, rounded to bytes
  std::vector<uint16_t> left_units_, right_units_;  // of each sample's levels; empty: none
  std::vector<std::byte> right_;                    // X, encoded
  NonzeroEncoder nonzero_;
  // Scratch.
  std::vector<float> matrix_;
  std::vector<uint32_t> all_;
};

// Number of floats in the matrices that a reader of the payload holds for these slices.
uint64_t FactorFloats(ByteSpan payload, std::span<const SliceShape> shapes);
// Number of floats that the reader of one slice holds beside them.
inline constexpr uint64_t kMostTileFloats = uint64_t{4} * 16384;

// Checks every byte of a payload and opens it for each of the slices.
StatusOrReaders OpenFactors(ByteSpan payload, std::span<const SliceShape> shapes,
                            const CodecKernels& kernels);

}  // namespace psgd
