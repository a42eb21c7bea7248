#include "compression/simd/fp16.h"

#include "compression/dense/half.h"
#include "compression/scalar/fp16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compression/simd/fp16.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "compression/simd/vectors.h"

HWY_BEFORE_NAMESPACE();
namespace psgd::simd::HWY_NAMESPACE {
// Only for CPUs that convert: Highway's replacement elsewhere does not round to nearest even.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2

using Half = hn::Rebind<hwy::float16_t, Float>;
constexpr size_t kHalfBytes = sizeof(hwy::float16_t);

// The operand order lets NaN through, as the scalar twin does.
HWY_INLINE FloatVector Saturate(FloatVector x) {
  const FloatVector top = hn::Set(Float(), kLargestHalf);
  return hn::Max(hn::Neg(top), hn::Min(top, x));
}

template <bool kKeep>
HWY_INLINE void EncodeVector(const float* gradient, float* residual, std::byte* out) {
  FloatVector corrected = LoadFloats(gradient);
  if constexpr (kKeep) corrected = hn::Add(corrected, LoadFloats(residual));
  const auto half = hn::DemoteTo(Half(), Saturate(corrected));
  hn::StoreU(half, Half(), reinterpret_cast<hwy::float16_t*>(out));
  if constexpr (kKeep) {
    hn::StoreU(hn::Sub(corrected, hn::PromoteTo(Float(), half)), Float(), residual);
  }
}

void EncodeHalves(std::span<const float> gradient, float* residual, std::byte* out) {
  size_t i = 0;
  for (; i + kWidth <= gradient.size(); i += kWidth) {
    if (residual != nullptr) {
      EncodeVector<true>(&gradient[i], residual + i, out + i * kHalfBytes);
    } else {
      EncodeVector<false>(&gradient[i], nullptr, out + i * kHalfBytes);
    }
  }
  scalar::EncodeHalves(gradient.subspan(i), residual == nullptr ? nullptr : residual + i,
                       out + i * kHalfBytes);
}

void AddHalves(float scale, const std::byte* halves, std::span<float> y) {
  const FloatVector factor = hn::Set(Float(), scale);
  size_t i = 0;
  for (; i + kWidth <= y.size(); i += kWidth) {
    const auto half =
        hn::LoadU(Half(), reinterpret_cast<const hwy::float16_t*>(halves + i * kHalfBytes));
    const FloatVector product = hn::Mul(factor, hn::PromoteTo(Float(), half));
    hn::StoreU(hn::Add(LoadFloats(&y[i]), product), Float(), &y[i]);
  }
  scalar::AddHalves(scale, halves + i * kHalfBytes, y.subspan(i));
}

bool AllFiniteHalves(const std::byte* halves, size_t count) {
  const hn::ScalableTag<uint16_t> d;
  const auto exponent = hn::Set(d, uint16_t{0x7C00});
  auto largest = hn::Zero(d);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    const auto half = hn::LoadU(d, reinterpret_cast<const uint16_t*>(halves + i * kHalfBytes));
    largest = hn::Max(largest, hn::And(half, exponent));
  }
  const bool finite = hn::AllFalse(d, hn::Eq(largest, exponent));
  return finite && scalar::AllFiniteHalves(halves + i * kHalfBytes, count - i);
}

#else
using scalar::AddHalves;
using scalar::AllFiniteHalves;
using scalar::EncodeHalves;
#endif
}  // namespace psgd::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace psgd::simd {

HWY_EXPORT(EncodeHalves);
HWY_EXPORT(AddHalves);
HWY_EXPORT(AllFiniteHalves);

void EncodeHalves(std::span<const float> gradient, float* residual, std::byte* out) {
  HWY_DYNAMIC_DISPATCH(EncodeHalves)(gradient, residual, out);
}

void AddHalves(float scale, const std::byte* halves, std::span<float> y) {
  HWY_DYNAMIC_DISPATCH(AddHalves)(scale, halves, y);
}

bool AllFiniteHalves(const std::byte* halves, size_t count) {
  return HWY_DYNAMIC_DISPATCH(AllFiniteHalves)(halves, count);
}

}  // namespace psgd::simd
#endif  // HWY_ONCE
