// fp32 values that travel as they are, and sums of them. Part of kernels.cc.
#include "compression/scalar/loops.h"

HWY_BEFORE_NAMESPACE();
namespace psgd::simd::HWY_NAMESPACE {

void Add(std::span<const float> x, std::span<float> y) {
  size_t i = 0;
  for (; i + kWidth <= x.size(); i += kWidth) {
    hn::StoreU(hn::Add(LoadFloats(&y[i]), LoadFloats(&x[i])), Float(), &y[i]);
  }
  scalar::Add(x.subspan(i), y.subspan(i));
}

void AddScaled(float scale, const std::byte* x, std::span<float> y) {
  const FloatVector factor = hn::Set(Float(), scale);
  size_t i = 0;
  for (; i + kWidth <= y.size(); i += kWidth) {
    const FloatVector product = hn::Mul(factor, LoadFloats(x + i * sizeof(float)));
    hn::StoreU(hn::Add(LoadFloats(&y[i]), product), Float(), &y[i]);
  }
  scalar::AddScaled(scale, x + i * sizeof(float), y.subspan(i));
}

float LargestMagnitude(const std::byte* x, size_t count) {
  const Unsigned d;
  auto largest = hn::Zero(d);
  size_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    const auto bits = hn::BitCast(d, LoadFloats(x + i * sizeof(float)));
    largest = hn::Max(largest, hn::And(bits, hn::Set(d, 0x7FFFFFFFu)));
  }
  const uint32_t rest =
      std::bit_cast<uint32_t>(scalar::LargestMagnitude(x + i * sizeof(float), count - i));
  return std::bit_cast<float>(std::max(rest, hn::GetLane(hn::MaxOfLanes(d, largest))));
}

double SumSquares(std::span<const float> x) {
  DoubleLanes squares;
  size_t i = 0;
  for (; i + kLanes <= x.size(); i += kLanes) {
    for (size_t v = 0; v < kVectors; ++v) squares.AddSquaresTo(v, LoadFloats(&x[i + v * kWidth]));
  }
  Lanes<double> lanes = squares.Store();
  for (; i < x.size(); ++i) lanes.value[i % kLanes] += static_cast<double>(x[i]) * x[i];
  return lanes.Sum();
}

void Blend(float keep, std::span<const float> x, float share, std::span<float> y) {
  const FloatVector kept = hn::Set(Float(), keep), added = hn::Set(Float(), share);
  size_t i = 0;
  for (; i + kWidth <= y.size(); i += kWidth) {
    const FloatVector old = hn::Mul(kept, LoadFloats(&y[i]));
    hn::StoreU(hn::Add(old, hn::Mul(added, LoadFloats(&x[i]))), Float(), &y[i]);
  }
  scalar::Blend(keep, x.subspan(i), share, y.subspan(i));
}

}  // namespace psgd::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
