#include "compression/simd/momentum.h"

#include "compression/scalar/momentum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compression/simd/momentum.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "compression/simd/vectors.h"

HWY_BEFORE_NAMESPACE();
namespace psgd::simd::HWY_NAMESPACE {
#if PSGD_HAS_VECTORS

template <bool kSum>
void AccumulateAs(std::span<const float> gradient, float scale, float momentum, float* velocity,
                  float* sum) {
  const FloatVector scales = hn::Set(Float(), scale), momenta = hn::Set(Float(), momentum);
  size_t i = 0;
  for (; i + kWidth <= gradient.size(); i += kWidth) {
    const FloatVector kept = hn::Mul(momenta, LoadFloats(velocity + i));
    const FloatVector moved = hn::Add(kept, hn::Mul(scales, LoadFloats(&gradient[i])));
    hn::StoreU(moved, Float(), velocity + i);
    if constexpr (kSum) hn::StoreU(hn::Add(LoadFloats(sum + i), moved), Float(), sum + i);
  }
  scalar::Accumulate(gradient.subspan(i), scale, momentum, velocity + i, kSum ? sum + i : nullptr);
}

void Accumulate(std::span<const float> gradient, float scale, float momentum, float* velocity,
                float* sum) {
  sum != nullptr ? AccumulateAs<true>(gradient, scale, momentum, velocity, sum)
                 : AccumulateAs<false>(gradient, scale, momentum, velocity, sum);
}

#else
using scalar::Accumulate;
#endif
}  // namespace psgd::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace psgd::simd {

HWY_EXPORT(Accumulate);

void Accumulate(std::span<const float> gradient, float scale, float momentum, float* velocity,
                float* sum) {
  HWY_DYNAMIC_DISPATCH(Accumulate)(gradient, scale, momentum, velocity, sum);
}

}  // namespace psgd::simd
#endif  // HWY_ONCE
