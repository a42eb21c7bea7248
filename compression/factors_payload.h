// Writing and reading payloads of factors.h that hold two matrices.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compression/kernels.h"
#include "compression/nonzero.h"

namespace psgd {

// Encodes the factors of one tensor after the other. Not thread-safe.
class FactorsEncoder {
 public:
  // `coding` of the values: as they are, or binary16.
  explicit FactorsEncoder(const CodecKernels& kernels, ValueCoding coding = ValueCoding::kFloat)
      : kernels_(kernels), coding_(coding) {}

  // The factors of a step: `batch` rows, each one of X and behind it one of D transposed. They must
  // outlive the calls of Encode that follow. REQUIRES: batch > 0.
  void Begin(std::span<const float> factors, uint64_t batch, uint64_t columns);
  // Appends the payload for these slices of the tensor; false, and nothing, where it would be none
  // that pays.
  bool Encode(std::span<const SliceShape> shapes, std::vector<std::byte>* out);

 private:
  // Appends matrix_.
  void AppendMatrix(std::vector<std::byte>* out);

  const CodecKernels& kernels_;
  const ValueCoding coding_;
  std::span<const float> factors_;
  uint64_t batch_ = 0;
  uint64_t columns_ = 0;
  ValueCoding step_coding_ = coding_;
  int left_shift_ = 0, right_shift_ = 0;  // powers of two that the matrices are multiplied by
  std::vector<std::byte> right_;  // X, encoded
  NonzeroEncoder nonzero_;
  // Scratch.
  std::vector<float> matrix_;
  std::vector<uint32_t> all_;
};

// That a reader of the payload holds, if it is one of matrices for these slices.
uint64_t FactorFloats(ByteSpan payload, std::span<const SliceShape> shapes);

// Checks every byte of a payload and opens it for each of the slices.
absl::StatusOr<std::vector<std::unique_ptr<PayloadReader>>> OpenFactors(
    ByteSpan payload, std::span<const SliceShape> shapes, const CodecKernels& kernels);

}  // namespace psgd
