// Sign bits. Part of kernels.cc.
#include <algorithm>
#include <bit>
#include <cstring>

#include "compression/lanes.h"
#include "compression/scalar/loops.h"

HWY_BEFORE_NAMESPACE();
namespace psgd::simd::HWY_NAMESPACE {

struct SignLanes {
  FloatVector positive[kVectors];
  FloatVector negative[kVectors];

  SignLanes() {
    for (size_t v = 0; v < kVectors; ++v) positive[v] = negative[v] = hn::Zero(Float());
  }
};

// Splits sixteen elements from `at` on. Returns their sign bits.
template <bool kKeep>
HWY_INLINE uint16_t SplitStep(const float* gradient, float* residual, size_t at, SignLanes* sums) {
  uint32_t bits = 0;
  for (size_t v = 0; v < kVectors; ++v) {
    const FloatVector c = Correct<kKeep>(gradient, residual, at + v * kWidth);
    const auto mask = hn::Ge(c, hn::Zero(Float()));
    sums->positive[v] = hn::Add(sums->positive[v], hn::IfThenElseZero(mask, c));
    sums->negative[v] = hn::Add(sums->negative[v], hn::IfThenZeroElse(mask, c));
    uint8_t part[8] = {};
    hn::StoreMaskBits(Float(), mask, part);
    uint16_t word;
    std::memcpy(&word, part, sizeof(word));
    bits |= static_cast<uint32_t>(word) << (v * kWidth);
  }
  return static_cast<uint16_t>(bits);
}

template <bool kKeep>
SignSums Split(std::span<const float> gradient, float* residual, std::byte* bits) {
  SignLanes lanes;
  SignSums sums;
  size_t i = 0;
  for (; i + kLanes <= gradient.size(); i += kLanes) {
    const uint16_t word = SplitStep<kKeep>(gradient.data(), residual, i, &lanes);
    std::memcpy(bits + i / 8, &word, sizeof(word));
    sums.positive_count += static_cast<uint32_t>(std::popcount(word));
  }
  // The scalar twin sums the rest, at most one element a lane, starting from these lanes.
  Lanes<float> positive, negative;
  for (size_t v = 0; v < kVectors; ++v) {
    hn::StoreU(lanes.positive[v], Float(), positive.value + v * kWidth);
    hn::StoreU(lanes.negative[v], Float(), negative.value + v * kWidth);
  }
  scalar::SplitSignsInto(gradient.subspan(i), kKeep ? residual + i : nullptr, bits + i / 8,
                         &positive, &negative, &sums.positive_count);
  sums.positive = positive.Sum();
  sums.negative = negative.Sum();
  return sums;
}

SignSums SplitSigns(std::span<const float> gradient, float* residual, std::byte* bits) {
  return residual != nullptr ? Split<true>(gradient, residual, bits)
                             : Split<false>(gradient, residual, bits);
}

void AddSigns(const std::byte* bits, size_t first, float high, float low, std::span<float> y) {
  const FloatVector highs = hn::Set(Float(), high);
  const FloatVector lows = hn::Set(Float(), low);
  size_t i = std::min((8 - first % 8) % 8, y.size());  // to a whole byte
  scalar::AddSigns(bits, first, high, low, y.first(i));
  for (; i + kLanes <= y.size(); i += kLanes) {
    uint16_t word;
    std::memcpy(&word, bits + (first + i) / 8, sizeof(word));
    for (size_t v = 0; v < kVectors; ++v) {
      uint8_t part[8] = {};
      const uint16_t shifted = static_cast<uint16_t>(word >> (v * kWidth));
      std::memcpy(part, &shifted, sizeof(shifted));
      const auto mask = hn::LoadMaskBits(Float(), part);
      float* at = &y[i + v * kWidth];
      hn::StoreU(hn::Add(LoadFloats(at), hn::IfThenElse(mask, highs, lows)), Float(), at);
    }
  }
  scalar::AddSigns(bits, first + i, high, low, y.subspan(i));
}

}  // namespace psgd::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
