#include "compression/scalar/onebit.h"

namespace psgd::scalar {

SignSums SplitSigns(std::span<const float> gradient, float* residual, std::byte* bits) {
  Lanes<float> positive, negative;
  SignSums sums;
  SplitSignsInto(gradient, residual, bits, &positive, &negative, &sums.positive_count);
  sums.positive = positive.Sum();
  sums.negative = negative.Sum();
  return sums;
}

void SplitSignsInto(std::span<const float> gradient, float* residual, std::byte* bits,
                    Lanes<float>* positive, Lanes<float>* negative, uint32_t* positive_count) {
  for (size_t i = 0; i < gradient.size(); ++i) {
    const float corrected = residual != nullptr ? gradient[i] + residual[i] : gradient[i];
    if (residual != nullptr) residual[i] = corrected;
    const bool bit = corrected >= 0;
    (bit ? positive : negative)->value[i % kLanes] += corrected;
    *positive_count += bit;
    if (i % 8 == 0) bits[i / 8] = std::byte{0};
    bits[i / 8] |= static_cast<std::byte>(bit << (i % 8));
  }
}

void AddSigns(const std::byte* bits, size_t first, float high, float low, std::span<float> y) {
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t at = first + i;
    const bool bit = ((bits[at / 8] >> (at % 8)) & std::byte{1}) != std::byte{0};
    y[i] += bit ? high : low;
  }
}

}  // namespace psgd::scalar
