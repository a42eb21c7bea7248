// A sign bit for each element, shared by sign and signum. Element i is bit i % 8 of byte i / 8;
// bits beyond the last element are 0.
#pragma once

#include "compression/kernels.h"

namespace psgd {

constexpr size_t SignBytes(size_t elements) { return (elements + 7) / 8; }

// Reads `value` for each set bit, -value for the others. The bits must outlive the reader.
class SignReader final : public PayloadReader {
 public:
  SignReader(uint32_t elements, float value, const std::byte* bits, const CodecKernels& kernels)
      : PayloadReader(elements), value_(value), bits_(bits), kernels_(kernels) {}

  void AddBlock(float scale, std::span<float> block) override {
    kernels_.onebit.add(bits_, position_, scale * value_, -(scale * value_), block);
    position_ += block.size();
  }
  float Largest() const override { return value_; }

 private:
  const float value_;
  const std::byte* const bits_;
  const CodecKernels& kernels_;
  size_t position_ = 0;
};

// For blocks whose fp32 lanes overflow, because many values are near the end of the fp32 range.
SignSums SumSignsOneByOne(std::span<const float> values);

// Writes the bits of c = gradient (+ residual, which becomes c), 1 for c >= 0. Returns the sum of
// |c|, in double precision except for short stretches. The sum is finite if c is.
double SplitAllSigns(std::span<const float> gradient, std::span<float> residual, std::byte* bits,
                     const CodecKernels& kernels);

}  // namespace psgd
