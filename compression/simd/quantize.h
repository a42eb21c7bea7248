// Whole multiples of a unit, and codes of a few bits. Part of kernels.cc.
#include <algorithm>
#include <cstring>

#include "compression/dense/quantized.h"
#include "compression/scalar/loops.h"

HWY_BEFORE_NAMESPACE();
namespace psgd::simd::HWY_NAMESPACE {

using Codes = hn::CappedTag<uint8_t, 16>;

template <bool kKeep>
uint32_t LargestAs(std::span<const float> gradient, float* residual) {
  const Unsigned d;
  auto largest = hn::Zero(d);
  size_t i = 0;
  for (; i + kWidth <= gradient.size(); i += kWidth) {
    const FloatVector c = Correct<kKeep>(gradient.data(), residual, i);
    largest = hn::Max(largest, hn::BitCast(d, hn::Abs(c)));
  }
  return std::max(hn::GetLane(hn::MaxOfLanes(d, largest)),
                  scalar::Largest(gradient.subspan(i), kKeep ? residual + i : nullptr));
}

uint32_t Largest(std::span<const float> gradient, float* residual) {
  return residual != nullptr ? LargestAs<true>(gradient, residual)
                             : LargestAs<false>(gradient, residual);
}

// Elements that one draw of random words serves.
constexpr size_t kDrawn = 8 * kWidth;

class Quantizer {
 public:
  explicit Quantizer(const QuantizeDraw& draw)
      : philox_(draw.key, draw.step),
        inverse_(hn::Set(Float(), draw.inverse)),
        unit_(hn::Set(Float(), draw.unit)),
        top_(hn::Set(Float(), draw.largest_level)) {}

  // Quantizes kDrawn elements; `first` is the index of the first one in the slice.
  template <bool kStochastic, bool kKeep>
  HWY_INLINE void Chunk(const float* from, uint32_t first, int8_t* levels, float* residual) const {
    if constexpr (kStochastic) {
      PhiloxVectors::Pair random[2];
      philox_.Draw(first / 8, random);
      for (size_t p = 0; p < 4; ++p) {
        const auto words = p % 2 == 0 ? random[p / 2].low : random[p / 2].high;
        const size_t at = p * kWidth / 16 * kRandomGroup + p * kWidth % 16;
        Vector<kKeep>(from, at, Part(hn::And(words, hn::Set(Unsigned(), 0xFFFFu))), levels,
                      residual);
        Vector<kKeep>(from, at + 16, Part(hn::ShiftRight<16>(words)), levels, residual);
      }
    } else {
      for (size_t at = 0; at < kDrawn; at += kWidth) {
        Vector<kKeep>(from, at, hn::Set(Float(), 0.5f), levels, residual);
      }
    }
  }

 private:
  static HWY_INLINE FloatVector Part(hn::Vec<Unsigned> bits) {
    return hn::Mul(hn::ConvertTo(Float(), hn::BitCast(Signed(), bits)),
                   hn::Set(Float(), kRandomUnit));
  }

  template <bool kKeep>
  HWY_INLINE void Vector(const float* from, size_t at, FloatVector part, int8_t* levels,
                         float* residual) const {
    const FloatVector c = LoadFloats(from + at);
    const FloatVector reached = hn::Min(hn::Add(hn::Mul(hn::Abs(c), inverse_), part), top_);
    const auto magnitude = hn::ConvertTo(Signed(), reached);
    const auto sign = hn::ShiftRight<31>(hn::BitCast(Signed(), c));
    const auto level = hn::Sub(hn::Xor(magnitude, sign), sign);
    hn::StoreU(hn::DemoteTo(SmallSigned(), level), SmallSigned(), levels + at);
    if constexpr (kKeep) {
      const FloatVector product = hn::Mul(unit_, hn::ConvertTo(Float(), level));
      hn::StoreU(hn::Sub(c, product), Float(), residual + at);
    }
  }

  const PhiloxVectors philox_;
  const FloatVector inverse_;
  const FloatVector unit_;
  const FloatVector top_;
};

template <bool kStochastic, bool kKeep>
void QuantizeAs(std::span<const float> corrected, const QuantizeDraw& draw, int8_t* levels,
                float* residual) {
  const Quantizer quantizer(draw);
  size_t i = 0;
  for (; i + kDrawn <= corrected.size(); i += kDrawn) {
    quantizer.Chunk<kStochastic, kKeep>(&corrected[i], draw.first + static_cast<uint32_t>(i),
                                        levels + i, kKeep ? residual + i : nullptr);
  }
  const size_t rest = corrected.size() - i;
  if (rest == 0) return;
  float from[kDrawn] = {}, left[kDrawn];
  int8_t to[kDrawn];
  std::copy(corrected.begin() + i, corrected.end(), from);
  quantizer.Chunk<kStochastic, kKeep>(from, draw.first + static_cast<uint32_t>(i), to, left);
  std::copy_n(to, rest, levels + i);
  if constexpr (kKeep) std::copy_n(left, rest, residual + i);
}

void Quantize(std::span<const float> corrected, const QuantizeDraw& draw, int8_t* levels,
              float* residual) {
  if (draw.stochastic) {
    residual != nullptr ? QuantizeAs<true, true>(corrected, draw, levels, residual)
                        : QuantizeAs<true, false>(corrected, draw, levels, residual);
  } else {
    residual != nullptr ? QuantizeAs<false, true>(corrected, draw, levels, residual)
                        : QuantizeAs<false, false>(corrected, draw, levels, residual);
  }
}

void PackCodes(const uint8_t* codes, size_t groups, uint32_t bits, std::byte* out) {
  const Codes d;
  for (size_t g = 0; g < groups; ++g, codes += 16) {
    const auto group = hn::LoadU(d, codes);
    for (uint32_t plane = 0; plane < bits; ++plane, out += 2) {
      const auto set = hn::TestBit(group, hn::Set(d, static_cast<uint8_t>(1u << plane)));
      uint8_t word[8] = {};
      hn::StoreMaskBits(d, set, word);
      std::memcpy(out, word, 2);
    }
  }
}

void UnpackCodes(const std::byte* in, size_t groups, uint32_t bits, uint8_t* codes) {
  const Codes d;
  for (size_t g = 0; g < groups; ++g, codes += 16) {
    auto group = hn::Zero(d);
    for (uint32_t plane = 0; plane < bits; ++plane, in += 2) {
      uint8_t word[8] = {};
      std::memcpy(word, in, 2);
      const auto bit = hn::Set(d, static_cast<uint8_t>(1u << plane));
      group = hn::Or(group, hn::IfThenElseZero(hn::LoadMaskBits(d, word), bit));
    }
    hn::StoreU(group, d, codes);
  }
}

}  // namespace psgd::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
