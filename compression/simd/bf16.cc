#include "compression/simd/bf16.h"

#include "compression/dense/brain.h"
#include "compression/scalar/bf16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compression/simd/bf16.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "compression/simd/vectors.h"

HWY_BEFORE_NAMESPACE();
namespace psgd::simd::HWY_NAMESPACE {
#if PSGD_HAS_VECTORS

using Brain = hn::Rebind<uint16_t, Float>;
constexpr size_t kBrainBytes = sizeof(uint16_t);

// Returns the bits to send, in the upper halves of lanes.
HWY_INLINE hn::Vec<Unsigned> RoundBrain(FloatVector value) {
  const Unsigned d;
  const auto bits = hn::BitCast(d, value);
  const auto sign = hn::And(bits, hn::Set(d, 0x80000000u));
  const auto magnitude = hn::AndNot(hn::Set(d, 0x80000000u), bits);
  const auto even = hn::And(hn::ShiftRight<16>(magnitude), hn::Set(d, 1u));
  const auto rounded = hn::Add(hn::Add(magnitude, hn::Set(d, 0x7FFFu)), even);
  const auto finite =
      hn::Min(hn::And(rounded, hn::Set(d, 0xFFFF0000u)), hn::Set(d, kLargestBrain << 16));
  const auto nan = hn::Gt(hn::BitCast(Signed(), magnitude), hn::Set(Signed(), 0x7F800000));
  return hn::Or(sign, hn::IfThenElse(hn::RebindMask(d, nan), hn::Set(d, 0x7FC00000u), finite));
}

template <bool kKeep>
HWY_INLINE void EncodeVector(const float* gradient, float* residual, std::byte* out) {
  FloatVector corrected = LoadFloats(gradient);
  if constexpr (kKeep) corrected = hn::Add(corrected, LoadFloats(residual));
  const auto bits = RoundBrain(corrected);
  const auto upper = hn::BitCast(Signed(), hn::ShiftRight<16>(bits));
  hn::StoreU(hn::DemoteTo(Brain(), upper), Brain(), reinterpret_cast<uint16_t*>(out));
  if constexpr (kKeep) {
    hn::StoreU(hn::Sub(corrected, hn::BitCast(Float(), bits)), Float(), residual);
  }
}

void EncodeBrains(std::span<const float> gradient, float* residual, std::byte* out) {
  size_t i = 0;
  for (; i + kWidth <= gradient.size(); i += kWidth) {
    if (residual != nullptr) {
      EncodeVector<true>(&gradient[i], residual + i, out + i * kBrainBytes);
    } else {
      EncodeVector<false>(&gradient[i], nullptr, out + i * kBrainBytes);
    }
  }
  scalar::EncodeBrains(gradient.subspan(i), residual == nullptr ? nullptr : residual + i,
                       out + i * kBrainBytes);
}

void AddBrains(float scale, const std::byte* brains, std::span<float> y) {
  const FloatVector factor = hn::Set(Float(), scale);
  size_t i = 0;
  for (; i + kWidth <= y.size(); i += kWidth) {
    const auto brain =
        hn::LoadU(Brain(), reinterpret_cast<const uint16_t*>(brains + i * kBrainBytes));
    const auto bits = hn::ShiftLeft<16>(hn::PromoteTo(Unsigned(), brain));
    const FloatVector product = hn::Mul(factor, hn::BitCast(Float(), bits));
    hn::StoreU(hn::Add(LoadFloats(&y[i]), product), Float(), &y[i]);
  }
  scalar::AddBrains(scale, brains + i * kBrainBytes, y.subspan(i));
}

bool AllFiniteBrains(const std::byte* brains, size_t count) {
  const hn::ScalableTag<uint16_t> d;
  const auto exponent = hn::Set(d, static_cast<uint16_t>(kBrainExponent));
  auto largest = hn::Zero(d);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    const auto brain = hn::LoadU(d, reinterpret_cast<const uint16_t*>(brains + i * kBrainBytes));
    largest = hn::Max(largest, hn::And(brain, exponent));
  }
  const bool finite = hn::AllFalse(d, hn::Eq(largest, exponent));
  return finite && scalar::AllFiniteBrains(brains + i * kBrainBytes, count - i);
}

#else
using scalar::AddBrains;
using scalar::AllFiniteBrains;
using scalar::EncodeBrains;
#endif
}  // namespace psgd::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace psgd::simd {

HWY_EXPORT(EncodeBrains);
HWY_EXPORT(AddBrains);
HWY_EXPORT(AllFiniteBrains);

void EncodeBrains(std::span<const float> gradient, float* residual, std::byte* out) {
  HWY_DYNAMIC_DISPATCH(EncodeBrains)(gradient, residual, out);
}

void AddBrains(float scale, const std::byte* brains, std::span<float> y) {
  HWY_DYNAMIC_DISPATCH(AddBrains)(scale, brains, y);
}

bool AllFiniteBrains(const std::byte* brains, size_t count) {
  return HWY_DYNAMIC_DISPATCH(AllFiniteBrains)(brains, count);
}

}  // namespace psgd::simd
#endif  // HWY_ONCE
