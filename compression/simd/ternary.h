// Base-3 digits. Part of kernels.cc.
#include <algorithm>

#include "compression/dense/ternary_value.h"
#include "compression/lanes.h"
#include "compression/scalar/loops.h"

HWY_BEFORE_NAMESPACE();
namespace psgd::simd::HWY_NAMESPACE {

using Byte = hn::Repartition<uint8_t, Float>;
using Word = hn::Repartition<uint16_t, Byte>;

template <bool kKeep>
Moments MeasureAs(std::span<const float> gradient, float* residual) {
  DoubleLanes squares;
  FloatVector largest[kVectors];
  for (size_t v = 0; v < kVectors; ++v) largest[v] = hn::Zero(Float());
  size_t i = 0;
  for (; i + kLanes <= gradient.size(); i += kLanes) {
    for (size_t v = 0; v < kVectors; ++v) {
      const FloatVector c = Correct<kKeep>(gradient.data(), residual, i + v * kWidth);
      largest[v] = hn::Max(largest[v], hn::Abs(c));
      squares.AddSquaresTo(v, c);
    }
  }
  Lanes<float> largest_lanes;
  for (size_t v = 0; v < kVectors; ++v) {
    hn::StoreU(largest[v], Float(), largest_lanes.value + v * kWidth);
  }
  Lanes<double> square_lanes = squares.Store();
  scalar::MeasureInto(gradient.subspan(i), kKeep ? residual + i : nullptr, &largest_lanes,
                      &square_lanes);
  return {largest_lanes.Largest(), square_lanes.Sum()};
}

Moments Measure(std::span<const float> gradient, float* residual) {
  return residual != nullptr ? MeasureAs<true>(gradient, residual)
                             : MeasureAs<false>(gradient, residual);
}

// Converts 4 * kWidth trits, in four vectors, to digits in bytes.
HWY_INLINE hn::Vec<Byte> DigitsOf(const hn::Vec<Signed> (&trit)[4]) {
  // Adding 1 to each byte cancels what the shifts of a -1 borrow: byte v of a lane is trit v + 1.
  const auto low = hn::Add(trit[0], hn::ShiftLeft<8>(trit[1]));
  const auto high = hn::Add(hn::ShiftLeft<16>(trit[2]), hn::ShiftLeft<24>(trit[3]));
  const auto digits = hn::Add(hn::Add(low, high), hn::Set(Signed(), 0x01010101));
  // Turns the order by lanes into order by vectors: within blocks of 128 bits, then across blocks.
  HWY_ALIGN static constexpr uint8_t kTransposed[16] = {0, 4, 8,  12, 1, 5, 9,  13,
                                                        2, 6, 10, 14, 3, 7, 11, 15};
  constexpr size_t kBlocks = kWidth / 4;
  HWY_ALIGN int32_t order[kWidth];
  for (size_t i = 0; i < kWidth; ++i) {
    order[i] = static_cast<int32_t>(i % kBlocks * 4 + i / kBlocks);
  }
  const auto blocks =
      hn::TableLookupBytes(hn::BitCast(Byte(), digits), hn::LoadDup128(Byte(), kTransposed));
  return hn::BitCast(Byte(), hn::TableLookupLanes(hn::BitCast(Signed(), blocks),
                                                  hn::SetTableIndices(Signed(), order)));
}

// Draws group after group of kTernaryGroup elements.
class GroupDrawer {
 public:
  explicit GroupDrawer(const TernaryDraw& draw)
      : philox_(draw.key, draw.step), unit_(hn::Set(Float(), draw.limit * kDrawUnit)) {}

  // Draws the elements from index `first` on, and writes their digits.
  HWY_INLINE void Draw(const float* corrected, size_t first, uint8_t* digits) {
    FloatVector magnitudes[kVectors];
    for (size_t v = 0; v < kVectors; ++v) magnitudes[v] = hn::Zero(Float());
    for (size_t i = 0; i < kTernaryGroup; i += 4 * kWidth) {
      PhiloxVectors::Pair random[2];
      philox_.Draw(static_cast<uint32_t>((first + i) / 4), random);
      hn::Vec<Signed> trit[4];
      for (size_t p = 0; p < 4; ++p) {
        const auto word = p % 2 == 0 ? random[p / 2].low : random[p / 2].high;
        const FloatVector c = LoadFloats(corrected + i + p * kWidth);
        trit[p] = DrawVector(word, c, &magnitudes[p % kVectors]);
      }
      const auto bytes = DigitsOf(trit);
      hn::StoreU(bytes, Byte(), digits + i);
      const auto zero = hn::Eq(bytes, hn::Set(Byte(), uint8_t{1}));
      count_ += 4 * kWidth - hn::CountTrue(Byte(), zero);
    }
    for (size_t v = 0; v < kVectors; ++v) magnitudes_.AddTo(v, magnitudes[v]);
  }

  Drawn Total() const { return {magnitudes_.Store().Sum(), count_}; }

 private:
  HWY_INLINE hn::Vec<Signed> DrawVector(hn::Vec<Unsigned> word, FloatVector c,
                                        FloatVector* magnitudes) {
    const FloatVector magnitude = hn::Abs(c);
    const FloatVector whole =
        hn::ConvertTo(Float(), hn::BitCast(Signed(), hn::ShiftRight<8>(word)));
    const auto drawn = hn::Lt(hn::Mul(whole, unit_), magnitude);
    *magnitudes = hn::Add(*magnitudes, hn::IfThenElseZero(drawn, magnitude));
    const auto sign = hn::ShiftRight<31>(hn::BitCast(Signed(), c));
    return hn::IfThenElseZero(hn::RebindMask(Signed(), drawn), hn::Or(sign, hn::Set(Signed(), 1)));
  }

  const PhiloxVectors philox_;
  const FloatVector unit_;
  DoubleLanes magnitudes_;
  uint64_t count_ = 0;
};

// Packs kTernaryGroup digits into kTernaryBytes bytes.
HWY_INLINE void PackGroup(const uint8_t* digits, std::byte* out) {
  const Byte d;
  for (size_t j = 0; j < kTernaryBytes; j += hn::Lanes(d)) {
    auto packed = hn::LoadU(d, digits + j + kTernaryBytes * 4);
    for (size_t t = kTernaryDigits - 1; t-- > 0;) {
      packed = hn::Add(hn::Add(packed, packed),
                       hn::Add(packed, hn::LoadU(d, digits + j + kTernaryBytes * t)));
    }
    hn::StoreU(packed, d, reinterpret_cast<uint8_t*>(out) + j);
  }
}

Drawn DrawTrits(std::span<const float> corrected, const TernaryDraw& draw, std::byte* out) {
  GroupDrawer drawer(draw);
  uint8_t digits[kTernaryGroup];
  size_t i = 0;
  for (; i + kTernaryGroup <= corrected.size(); i += kTernaryGroup, out += kTernaryBytes) {
    drawer.Draw(&corrected[i], draw.first + i, digits);
    PackGroup(digits, out);
  }
  if (i < corrected.size()) {
    // Zeros are never drawn, so the padding takes no part in the sums.
    float rest[kTernaryGroup] = {};
    std::copy(corrected.begin() + i, corrected.end(), rest);
    drawer.Draw(rest, draw.first + i, digits);
    scalar::PackDigits(digits, TernaryBytes(corrected.size() - i), out);
  }
  return drawer.Total();
}

// Divides each byte by 3.
HWY_INLINE hn::Vec<Byte> ThirdOf(hn::Vec<Byte> x) {
  const Word d;
  const auto third = hn::Set(d, uint16_t{21846});  // 65536 / 3, rounded up
  const auto words = hn::BitCast(d, x);
  const auto even = hn::MulHigh(hn::And(words, hn::Set(d, uint16_t{0xFF})), third);
  const auto odd = hn::MulHigh(hn::ShiftRight<8>(words), third);
  return hn::BitCast(Byte(), hn::Or(even, hn::ShiftLeft<8>(odd)));
}

void UnpackTrits(const std::byte* in, size_t bytes, int8_t* trits) {
  if (bytes != kTernaryBytes) return scalar::UnpackTrits(in, bytes, trits);
  const Byte d;
  const auto one = hn::Set(d, uint8_t{1});
  for (size_t j = 0; j < kTernaryBytes; j += hn::Lanes(d)) {
    auto rest = hn::LoadU(d, reinterpret_cast<const uint8_t*>(in) + j);
    for (size_t t = 0; t < kTernaryDigits; ++t) {
      const auto third = ThirdOf(rest);
      const auto digit = hn::Sub(rest, hn::Add(hn::Add(third, third), third));
      hn::StoreU(hn::Sub(digit, one), d, reinterpret_cast<uint8_t*>(trits) + j + kTernaryBytes * t);
      rest = third;
    }
  }
}

void AddTrits(const int8_t* trits, float scale, std::span<float> y) {
  const FloatVector factor = hn::Set(Float(), scale);
  size_t i = 0;
  for (; i + kWidth <= y.size(); i += kWidth) {
    const auto whole = hn::PromoteTo(Signed(), hn::LoadU(SmallSigned(), trits + i));
    const FloatVector product = hn::Mul(factor, hn::ConvertTo(Float(), whole));
    hn::StoreU(hn::Add(LoadFloats(&y[i]), product), Float(), &y[i]);
  }
  scalar::AddTrits(trits + i, scale, y.subspan(i));
}

}  // namespace psgd::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
