// Powers of two. Part of kernels.cc.
#include <algorithm>
#include <cstring>

#include "compression/dense/natural.h"
#include "compression/scalar/loops.h"

HWY_BEFORE_NAMESPACE();
namespace psgd::simd::HWY_NAMESPACE {

using Exponent = hn::Rebind<uint8_t, Float>;

constexpr size_t kChunk = 64;  // the same at any width, so that sign bits fill whole words

// Rounds one vector: writes exponents, returns the sign bits, leaves the rest in `corrected`.
HWY_INLINE uint64_t RoundVector(FloatVector* corrected, hn::Vec<Unsigned> word,
                                uint8_t* exponents) {
  const Unsigned d;
  const auto sign_bit = hn::Set(d, 0x80000000u);
  const auto bits = hn::BitCast(d, *corrected);
  const auto magnitude = hn::AndNot(sign_bit, bits);
  const auto rounded =
      hn::ShiftRight<23>(hn::Add(magnitude, hn::And(word, hn::Set(d, kNaturalFraction))));
  const auto not_finite = hn::Gt(hn::BitCast(Signed(), magnitude), hn::Set(Signed(), 0x7F7FFFFF));
  const auto exponent = hn::IfThenElse(hn::RebindMask(d, not_finite), hn::Set(d, kNaturalNotFinite),
                                       hn::Min(rounded, hn::Set(d, kLargestNaturalExponent)));
  hn::StoreU(hn::DemoteTo(Exponent(), hn::BitCast(Signed(), exponent)), Exponent(), exponents);
  const auto value = hn::Or(hn::ShiftLeft<23>(exponent), hn::And(bits, sign_bit));
  *corrected = hn::Sub(*corrected, hn::BitCast(Float(), value));
  const auto negative = hn::Lt(hn::BitCast(Signed(), bits), hn::Zero(Signed()));
  uint8_t part[8] = {};
  hn::StoreMaskBits(Signed(), negative, part);
  uint16_t mask;
  std::memcpy(&mask, part, sizeof(mask));
  return mask;
}

class NaturalRounder {
 public:
  explicit NaturalRounder(const NaturalDraw& draw) : philox_(draw.key, draw.step) {}

  // Encodes kChunk elements from index `first` of the slice on.
  template <bool kKeep>
  HWY_INLINE void Chunk(const float* gradient, float* residual, size_t first, std::byte* exponents,
                        std::byte* signs) const {
    uint64_t sign_bits = 0;
    for (size_t i = 0; i < kChunk; i += 4 * kWidth) {
      PhiloxVectors::Pair random[2];
      philox_.Draw(static_cast<uint32_t>((first + i) / 4), random);
      for (size_t p = 0; p < 4; ++p) {
        const auto word = p % 2 == 0 ? random[p / 2].low : random[p / 2].high;
        const size_t at = i + p * kWidth;
        FloatVector c = LoadFloats(gradient + at);
        if constexpr (kKeep) c = hn::Add(c, LoadFloats(residual + at));
        sign_bits |= RoundVector(&c, word, reinterpret_cast<uint8_t*>(exponents) + at) << at;
        if constexpr (kKeep) hn::StoreU(c, Float(), residual + at);
      }
    }
    std::memcpy(signs, &sign_bits, sizeof(sign_bits));
  }

 private:
  const PhiloxVectors philox_;
};

template <bool kKeep>
void EncodeAs(std::span<const float> gradient, float* residual, const NaturalDraw& draw,
              std::byte* exponents, std::byte* signs) {
  const NaturalRounder rounder(draw);
  size_t i = 0;
  for (; i + kChunk <= gradient.size(); i += kChunk) {
    rounder.Chunk<kKeep>(&gradient[i], kKeep ? residual + i : nullptr, i, exponents + i,
                         signs + i / 8);
  }
  const size_t rest = gradient.size() - i;
  if (rest == 0) return;
  float from[kChunk] = {}, left[kChunk] = {};
  std::byte to[kChunk], bits[kChunk / 8];
  std::copy(gradient.begin() + i, gradient.end(), from);
  if constexpr (kKeep) std::copy_n(residual + i, rest, left);
  rounder.Chunk<kKeep>(from, left, i, to, bits);
  std::copy_n(to, rest, exponents + i);
  // The padding is +0, so its sign bits are 0.
  std::copy_n(bits, (rest + 7) / 8, signs + i / 8);
  if constexpr (kKeep) std::copy_n(left, rest, residual + i);
}

void EncodeNatural(std::span<const float> gradient, float* residual, const NaturalDraw& draw,
                   std::byte* exponents, std::byte* signs) {
  residual != nullptr ? EncodeAs<true>(gradient, residual, draw, exponents, signs)
                      : EncodeAs<false>(gradient, residual, draw, exponents, signs);
}

void AddNatural(const std::byte* exponents, const std::byte* signs, size_t first, float scale,
                std::span<float> y) {
  const FloatVector factor = hn::Set(Float(), scale);
  size_t i = std::min((8 - first % 8) % 8, y.size());  // to a whole byte of signs
  scalar::AddNatural(exponents, signs, first, scale, y.first(i));
  for (; i + kLanes <= y.size(); i += kLanes) {
    uint16_t word;
    std::memcpy(&word, signs + (first + i) / 8, sizeof(word));
    for (size_t v = 0; v < kVectors; ++v) {
      uint8_t part[8] = {};
      const uint16_t shifted = static_cast<uint16_t>(word >> (v * kWidth));
      std::memcpy(part, &shifted, sizeof(shifted));
      const auto negative = hn::LoadMaskBits(Float(), part);
      const auto exponent = hn::LoadU(
          Exponent(), reinterpret_cast<const uint8_t*>(exponents) + first + i + v * kWidth);
      const FloatVector magnitude =
          hn::BitCast(Float(), hn::ShiftLeft<23>(hn::PromoteTo(Unsigned(), exponent)));
      const FloatVector value = hn::IfThenElse(negative, hn::Neg(magnitude), magnitude);
      float* at = &y[i + v * kWidth];
      hn::StoreU(hn::Add(LoadFloats(at), hn::Mul(factor, value)), Float(), at);
    }
  }
  scalar::AddNatural(exponents, signs, first + i, scale, y.subspan(i));
}

}  // namespace psgd::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
