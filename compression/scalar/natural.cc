#include "compression/scalar/natural.h"

#include <algorithm>
#include <bit>

#include "compression/natural.h"

namespace psgd::scalar {
namespace {

float NaturalValue(std::byte exponent, bool negative) {
  const uint32_t bits = std::to_integer<uint32_t>(exponent) << 23;
  return std::bit_cast<float>(bits | static_cast<uint32_t>(negative) << 31);
}

}  // namespace

void EncodeNatural(std::span<const float> gradient, float* residual, const NaturalDraw& draw,
                   std::byte* exponents, std::byte* signs) {
  for (size_t i = 0; i < gradient.size(); ++i) {
    const float corrected = residual != nullptr ? gradient[i] + residual[i] : gradient[i];
    const uint32_t bits = std::bit_cast<uint32_t>(corrected);
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    const uint32_t word = Philox(draw.key, i / 4, draw.step).word[i % 4];
    const uint32_t rounded = (magnitude + (word & kNaturalFraction)) >> 23;
    const uint32_t exponent =
        magnitude >= 0x7F800000u ? kNaturalNotFinite : std::min(rounded, kLargestNaturalExponent);
    exponents[i] = static_cast<std::byte>(exponent);
    if (i % 8 == 0) signs[i / 8] = std::byte{0};
    signs[i / 8] |= static_cast<std::byte>((bits >> 31) << (i % 8));
    if (residual != nullptr) {
      residual[i] = corrected - NaturalValue(exponents[i], bits >> 31 != 0);
    }
  }
}

void AddNatural(const std::byte* exponents, const std::byte* signs, size_t first, float scale,
                std::span<float> y) {
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t at = first + i;
    const bool negative = ((signs[at / 8] >> (at % 8)) & std::byte{1}) != std::byte{0};
    y[i] += scale * NaturalValue(exponents[at], negative);
  }
}

}  // namespace psgd::scalar
