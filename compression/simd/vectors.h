// Shared by the Highway loops. Part of kernels.cc.
//
// Loops go in steps of 16 elements: kVectors vectors of at most 16 lanes each. So element i meets
// lane i % 16 at any vector width. The scalar twin handles the remaining elements.
#include "compression/lanes.h"

HWY_BEFORE_NAMESPACE();
namespace psgd::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Float = hn::CappedTag<float, kLanes>;
using Signed = hn::RebindToSigned<Float>;
using Unsigned = hn::RebindToUnsigned<Float>;
using FloatVector = hn::Vec<Float>;
using SmallSigned = hn::Rebind<int8_t, Float>;

constexpr size_t kWidth = hn::MaxLanes(Float());
constexpr size_t kVectors = kLanes / kWidth;

HWY_INLINE FloatVector LoadFloats(const float* from) { return hn::LoadU(Float(), from); }
HWY_INLINE FloatVector LoadFloats(const std::byte* from) {
  return hn::LoadU(Float(), reinterpret_cast<const float*>(from));
}

// Returns gradient + residual of the elements from `at` on, and stores the sums in the residual.
// Without a residual, returns the gradient.
template <bool kKeep>
HWY_INLINE FloatVector Correct(const float* gradient, float* residual, size_t at) {
  FloatVector corrected = LoadFloats(gradient + at);
  if constexpr (kKeep) {
    corrected = hn::Add(corrected, LoadFloats(residual + at));
    hn::StoreU(corrected, Float(), residual + at);
  }
  return corrected;
}

// Sixteen sums in double precision: two half vectors for each vector of floats.
struct DoubleLanes {
  using Half = hn::Rebind<double, hn::Half<Float>>;
  using Narrow = hn::Half<Float>;
  hn::Vec<Half> low[kVectors];
  hn::Vec<Half> high[kVectors];

  DoubleLanes() {
    for (size_t v = 0; v < kVectors; ++v) low[v] = high[v] = hn::Zero(Half());
  }
  static HWY_INLINE hn::Vec<Half> Low(FloatVector x) {
    return hn::PromoteTo(Half(), hn::LowerHalf(Narrow(), x));
  }
  static HWY_INLINE hn::Vec<Half> High(FloatVector x) {
    return hn::PromoteTo(Half(), hn::UpperHalf(Narrow(), x));
  }
  HWY_INLINE void AddTo(size_t v, FloatVector x) {
    low[v] = hn::Add(low[v], Low(x));
    high[v] = hn::Add(high[v], High(x));
  }
  HWY_INLINE void AddSquaresTo(size_t v, FloatVector x) {
    const auto l = Low(x), h = High(x);
    low[v] = hn::Add(low[v], hn::Mul(l, l));
    high[v] = hn::Add(high[v], hn::Mul(h, h));
  }
  HWY_INLINE void AddProductsTo(size_t v, FloatVector x, FloatVector y) {
    low[v] = hn::Add(low[v], hn::Mul(Low(x), Low(y)));
    high[v] = hn::Add(high[v], hn::Mul(High(x), High(y)));
  }
  Lanes<double> Store() const {
    Lanes<double> lanes;
    for (size_t v = 0; v < kVectors; ++v) {
      hn::StoreU(low[v], Half(), lanes.value + v * kWidth);
      hn::StoreU(high[v], Half(), lanes.value + v * kWidth + kWidth / 2);
    }
    return lanes;
  }
};

}  // namespace psgd::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
