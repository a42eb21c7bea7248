// Values and their levels. Part of kernels.cc.
#include <cstddef>

#include "compression/sparse/chunk_levels.h"

HWY_BEFORE_NAMESPACE();
namespace psgd::simd::HWY_NAMESPACE {

LevelSums SumLevels(std::span<const float> values, const ChunkLevels& levels) {
  const FloatVector low = hn::Set(Float(), levels.low()), top = hn::Set(Float(), levels.top());
  const FloatVector inverse = hn::Set(Float(), levels.inverse()), half = hn::Set(Float(), 0.5f);
  DoubleLanes magnitudes, products;
  // Sums of whole numbers are exact in any order, and here below 2^31.
  auto level_sum = hn::Zero(Signed()), squares = hn::Zero(Signed());
  const auto add = [&](const float* from, size_t v) HWY_ATTR {
    const FloatVector magnitude = hn::Abs(hn::LoadU(Float(), from));
    const FloatVector place = hn::Add(hn::Mul(hn::Sub(magnitude, low), inverse), half);
    const FloatVector within = hn::Min(hn::Max(place, hn::Zero(Float())), top);
    const auto level = hn::ConvertTo(Signed(), within);
    const FloatVector rounded = hn::ConvertTo(Float(), level);
    level_sum = hn::Add(level_sum, level);
    squares = hn::Add(squares, hn::Mul(level, level));
    magnitudes.AddTo(v, magnitude);
    products.AddProductsTo(v, rounded, magnitude);
  };
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t v = 0; v < kVectors; ++v) add(&values[i + v * kWidth], v);
  }
  Lanes<double> magnitude_lanes = magnitudes.Store(), product_lanes = products.Store();
  LevelSums sums;
  sums.levels = hn::GetLane(hn::SumOfLanes(Signed(), level_sum));
  sums.squares = hn::GetLane(hn::SumOfLanes(Signed(), squares));
  for (size_t lane = 0; i < values.size(); ++i, ++lane) {
    const float magnitude = std::fabs(values[i]);
    const uint32_t level = levels.Nearest(magnitude);
    sums.levels += level;
    sums.squares += static_cast<double>(level) * level;
    magnitude_lanes.value[lane] += magnitude;
    product_lanes.value[lane] += static_cast<double>(level) * magnitude;
  }
  sums.magnitudes = magnitude_lanes.Sum();
  sums.products = product_lanes.Sum();
  return sums;
}

}  // namespace psgd::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
