// Momentum that is added up. Part of kernels.cc.
#include "compression/scalar/loops.h"

HWY_BEFORE_NAMESPACE();
namespace psgd::simd::HWY_NAMESPACE {

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

}  // namespace psgd::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
