#include "compression/scalar/natural.h"

#include <cmath>

#include "compression/dense/natural.h"

namespace psgd::scalar {

void EncodeNatural(std::span<const float> gradient, float* residual, const NaturalDraw& draw,
                   std::byte* exponents, std::byte* signs) {
  for (size_t i = 0; i < gradient.size(); ++i) {
    const float corrected = residual != nullptr ? gradient[i] + residual[i] : gradient[i];
    const uint32_t word = Philox(draw.key, i / 4, draw.step).word[i % 4];
    const uint8_t exponent = NaturalExponent(corrected, word);
    const bool negative = std::signbit(corrected);
    exponents[i] = static_cast<std::byte>(exponent);
    if (i % 8 == 0) signs[i / 8] = std::byte{0};
    signs[i / 8] |= static_cast<std::byte>(negative << (i % 8));
    if (residual != nullptr) residual[i] = corrected - NaturalValue(exponent, negative);
  }
}

void AddNatural(const std::byte* exponents, const std::byte* signs, size_t first, float scale,
                std::span<float> y) {
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t at = first + i;
    const bool negative = ((signs[at / 8] >> (at % 8)) & std::byte{1}) != std::byte{0};
    y[i] += scale * NaturalValue(std::to_integer<uint8_t>(exponents[at]), negative);
  }
}

}  // namespace psgd::scalar
