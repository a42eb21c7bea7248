// The search for large elements. Part of kernels.cc.
#include "compression/scalar/loops.h"

HWY_BEFORE_NAMESPACE();
namespace psgd::simd::HWY_NAMESPACE {

template <bool kKeep>
size_t GatherAs(std::span<const float> gradient, float* residual, uint32_t least, uint32_t first,
                uint32_t* indices, float* values) {
  // Magnitude bits order like signed numbers; Highway compares those by > only.
  const auto below = hn::Set(Signed(), static_cast<int32_t>(least) - 1);
  size_t found = 0;
  size_t i = 0;
  for (; i + kWidth <= gradient.size(); i += kWidth) {
    const FloatVector c = Correct<kKeep>(gradient.data(), residual, i);
    const auto large = hn::Gt(hn::BitCast(Signed(), hn::Abs(c)), below);
    if (hn::AllFalse(Signed(), large)) continue;
    const auto index = hn::Iota(Unsigned(), first + static_cast<uint32_t>(i));
    hn::StoreU(hn::Compress(index, hn::RebindMask(Unsigned(), large)), Unsigned(), indices + found);
    hn::StoreU(hn::Compress(c, hn::RebindMask(Float(), large)), Float(), values + found);
    found += hn::CountTrue(Signed(), large);
  }
  return found + scalar::Gather(gradient.subspan(i), kKeep ? residual + i : nullptr, least,
                                first + static_cast<uint32_t>(i), indices + found, values + found);
}

size_t Gather(std::span<const float> gradient, float* residual, uint32_t least, uint32_t first,
              uint32_t* indices, float* values) {
  return residual != nullptr ? GatherAs<true>(gradient, residual, least, first, indices, values)
                             : GatherAs<false>(gradient, residual, least, first, indices, values);
}

}  // namespace psgd::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
